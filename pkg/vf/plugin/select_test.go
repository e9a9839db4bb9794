package plugin

import (
	"fmt"
	"testing"
)

func TestSplit(t *testing.T) {
	devices := []Device{
		{ID: "a0", PF: PF{Name: "ens1f0"}, Index: 0}, {ID: "a1", PF: PF{Name: "ens1f0"}, Index: 1, Problem: "no driver"},
		{ID: "a2", PF: PF{Name: "ens1f0"}, Index: 2}, {ID: "b0", PF: PF{Name: "ens1f1"}, Index: 0},
	}
	for _, tc := range []struct {
		pfs    []string
		want   string
		others int
	}{
		{nil, "[]", 4},
		{[]string{"ens1f0#0-1"}, "[a0]", 2}, // a1 is selected, but not healthy
		{[]string{"ens1f0#2", "ens1f1"}, "[a2 b0]", 2},
		{[]string{"ens9"}, "[]", 4},
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
