package vf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func FuzzParsePF(f *testing.F) {
	for _, seed := range []string{"ens1f0", "ens1f0#0-3,7", "#", "a#b", "a#1-", "a#-1", "a#99999", "a#1#2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, vfs, err := parsePF(text)
		if err != nil {
			return
		}
		if name == "" || (vfs == nil) == strings.Contains(text, "#") {
			t.Errorf("%q: PF %q, VFs %v", text, name, vfs)
		}
		for _, r := range vfs {
			s := Selector{text}
			if r[0] > r[1] || !s.Matches(name, r[1]) {
				t.Errorf("%q: %v", text, r)
			}
		}
	})
}

func TestParseSelector_RefusesVFThatIsNoNumber(t *testing.T) {
	if _, err := ParseSelector("ens1f0#1 ens1f0#x"); err == nil {
		t.Error("ens1f0#x was taken")
	}
}

// Two PFs with four VFs each; the netdev of the second PF is the DPU's.
func twoPFs() *Inventory {
	inv := &Inventory{PFs: []PF{{Device: Device{Name: "0000:03:00.0"}, Ports: []Netdev{{Name: "ens1f0"}}}, {Device: Device{Name: "0000:03:00.1"}}}}
	for i := range inv.PFs {
		for n := range 4 {
			inv.PFs[i].VFs = append(inv.PFs[i].VFs, VF{Index: n, Device: Device{Name: string('a'+rune(i)) + fmt.Sprint(n)}})
		}
	}
	return inv
}

// TestMissing_NICWithAnotherName: an upgrade of the system renames ens1f0 to ens1f0np0, and the setting selects nothing.
func TestMissing_NICWithAnotherName(t *testing.T) {
	settings := Settings{Gateway: Selector{"ens1f0#1"}}
	renamed := twoPFs()
	renamed.PFs[0].Ports[0].Name = "ens1f0np0"
	free := func(string) string { return "" }
	for name, tc := range map[string]struct {
		settings Settings
		inv      *Inventory
		missing  bool
	}{
		"renamed":        {settings, renamed, true},
		"there":          {settings, twoPFs(), false},
		"without VFs":    {settings, &Inventory{PFs: []PF{{Ports: []Netdev{{Name: "eth0"}}}}}, false},
		"not set":        {Settings{}, renamed, false},
		"another reason": {Settings{Gateway: Selector{"ens1f0"}}, twoPFs(), false},
	} {
		p := tc.settings.Purposes(tc.inv, nil, free)
		if err := p.Missing(ForGateway, *tc.inv); (err != nil) != tc.missing || p.Missing(ForManagement, *tc.inv) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPurposes_OneForEachVF(t *testing.T) {
	for _, tc := range []struct {
		management, gateway, pods string
		reserved                  map[string]int
		held                      string
		want                      string
		problems                  [2]string // of management and gateway
	}{
		{want: ""},
		{pods: "ens1f0#0-1", want: "a0=default-pod a1=default-pod"},
		{pods: "ens1f0#2 0000:03:00.1#1-2", want: "a2=default-pod b1=default-pod b2=default-pod"},
		{pods: "ens9", reserved: map[string]int{"0000:03:00.1": 2, "0000:05:00.0": 1}, want: "b0=reserved b1=reserved"},
		{management: "ens1f0#0", gateway: "0000:03:00.0#1", pods: "ens1f0#0-2", reserved: map[string]int{"0000:03:00.0": 4},
			want: "a0=management a1=gateway a2=default-pod a3=reserved"},
		{management: "ens1f0#0", gateway: "ens1f0#0", want: "a0=management", problems: [2]string{"", "VF a0 is the management port"}},
		{management: "ens1f0#9", gateway: "ens1f0#0-1", problems: [2]string{"there is no VF ens1f0#9", "ens1f0#0-1 is 2 VFs, and has to be one"}},
		{management: "ens1f0#1", held: "a1", problems: [2]string{"VF a1 is held by pod default/web", ""}},
		{reserved: map[string]int{"0000:03:00.0": 1}, held: "a0", want: "a0=reserved"},
	} {
		parse := func(text string) Selector {
			selector, err := ParseSelector(text)
			if err != nil {
				t.Fatal(err)
			}
			return selector
		}
		s := Settings{parse(tc.management), parse(tc.gateway), parse(tc.pods)}
		p := s.Purposes(twoPFs(), tc.reserved, func(device string) string {
			return map[string]string{tc.held: "default/web"}[device]
		})
		var got []string
		for device := range p.NotForPods() {
			got = append(got, device+"="+string(p.Of(device)))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
		for i, purpose := range []Purpose{ForManagement, ForGateway} {
			device, err := p.Own(purpose)
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			if problem != tc.problems[i] || device != "" && p.Of(device) != purpose {
				t.Errorf("%+v: %s is %q, %v", tc, purpose, device, err)
			}
		}
	}
	p := Settings{Gateway: Selector{"ens1f0"}}.Purposes(nil, nil, nil)
	if _, err := p.Own(ForGateway); !errors.Is(err, ErrNoInventory) {
		t.Errorf("without an inventory: %v", err)
	}
	if device, err := p.Own(ForManagement); err != nil || device != "" {
		t.Errorf("without a setting: %q, %v", device, err)
	}
}
