package plugin

import (
	"fmt"
	"testing"
)

func TestSplit_ByPFAndIndexOfVF(t *testing.T) {
	devices := []Device{
		{ID: "a0", PF: PF{Name: "ens1f0"}, Index: 0}, {ID: "a1", PF: PF{Name: "ens1f0"}, Index: 1, Problem: "no driver"},
		{ID: "a2", PF: PF{Name: "ens1f0"}, Index: 2}, {ID: "b0", PF: PF{Name: "ens1f1"}, Index: 0},
		{ID: "c1", PF: PF{Address: "0000:03:00.0"}, Index: 1}, // the PF's netdev is the DPU's
	}
	for _, tc := range []struct {
		pfs    []string
		want   string
		others int
	}{
		{nil, "[]", 5},
		{[]string{"ens1f0#0-1"}, "[a0]", 3}, // a1 is selected, but not healthy
		{[]string{"ens1f0#2", "ens1f1"}, "[a2 b0]", 3},
		{[]string{"0000:03:00.0#1-2"}, "[c1]", 4},
		{[]string{"0000:03:00.0#2", "ens9"}, "[]", 5},
	} {
		s, err := ParsePFs(tc.pfs)
		if err != nil {
			t.Fatal(err)
		}
		selected, others := Split(devices, s)
		if got := fmt.Sprint(Healthy(selected)); got != tc.want || len(others) != tc.others {
			t.Errorf("%q: %s and %d others", tc.pfs, got, len(others))
		}
	}
	if _, err := ParsePFs([]string{"ens1f0#x"}); err == nil {
		t.Error("a VF that is no number was taken")
	}
}
