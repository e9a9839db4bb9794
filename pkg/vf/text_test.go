package vf

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

func TestParsePortName_ValidAndInvalid(t *testing.T) {
	good := map[string]PortName{
		"p0":                {Flavour: netdev.FlavourPhysical},
		"p12":               {Flavour: netdev.FlavourPhysical, Number: 12},
		"p1s0":              {Flavour: netdev.FlavourPhysical, Number: 1, Lane: 1},
		"p1s3":              {Flavour: netdev.FlavourPhysical, Number: 1, Lane: 4},
		"l2p1":              {Flavour: netdev.FlavourPhysical, Number: 1},
		"pf0":               {Flavour: netdev.FlavourPF},
		"c1pf0":             {Flavour: netdev.FlavourPF, External: true, Controller: 1},
		"c0pf1":             {Flavour: netdev.FlavourPF, External: true, PF: 1},
		"pf0vf3":            {Flavour: netdev.FlavourVF, Number: 3},
		"c1pf0vf3":          {Flavour: netdev.FlavourVF, External: true, Controller: 1, Number: 3},
		"c12pf3vf127":       {Flavour: netdev.FlavourVF, External: true, Controller: 12, PF: 3, Number: 127},
		"pf0sf88":           {Flavour: netdev.FlavourSF, Number: 88},
		"c1pf0sf4294967295": {Flavour: netdev.FlavourSF, External: true, Controller: 1, Number: 1<<32 - 1},
	}
	for name, want := range good {
		if got, ok := ParsePortName(name); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"", "3", "p", "pf", "pfvf", "pf0vf", "pf0vf3 ", " pf0vf3", "pf0vf3x", "xpf0vf3", "c1p0", "c1", "cpf0", "c1c1pf0",
		"pf00vf1", "pf0vf03", "pf0vf4294967296", "pf-1vf0", "pf0vf0sf0", "P0", "eth0", "p0s", "p0vf1", "pf0s1", "l1pf0", "pf0vf٣",
	} {
		if got, ok := ParsePortName(name); ok {
			t.Errorf("%q was taken for %+v", name, got)
		}
	}
}

func FuzzParsePortName(f *testing.F) {
	for _, seed := range []string{"p0", "p1s2", "l1p0", "pf0", "c1pf0vf3", "pf0sf88", "c", "pf0vf4294967296"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		function, ok := ParsePortName(name)
		if !ok {
			return
		}
		again, ok := ParsePortName(function.String())
		if !ok || again != function {
			t.Errorf("%q is %+v, whose name %q is %+v, %v", name, function, function, again, ok)
		}
		if name[0] != 'l' && function.String() != name {
			t.Errorf("%q is written %q", name, function)
		}
	})
}

func TestParsePCIAddress_ValidAndInvalid(t *testing.T) {
	for text, want := range map[string]PCIAddress{
		"0000:03:00.1":  {Bus: 3, Function: 1, valid: true},
		"0001:ff:1f.7":  {Domain: 1, Bus: 255, Device: 31, Function: 7, valid: true},
		"10000:e1:00.0": {Domain: 0x10000, Bus: 0xe1, valid: true},
	} {
		if got, err := ParsePCIAddress(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "03:00.1", "0000:03:00", "0000:03:20.0", "0000:03:00.8", "0000:03:00.1 ", "0000:03:00.1\n", "0000:0A:00.0",
		"0000:100:00.0", "000:03:00.0", "00000:03:00.0", "-000:03:00.0", "0000:+3:00.0", "../../../etc", "0000:03:00.1/../x",
	} {
		if got, err := ParsePCIAddress(text); err == nil {
			t.Errorf("%q was taken for %s", text, got)
		}
	}
}

func FuzzParsePCIAddress(f *testing.F) {
	for _, seed := range []string{"0000:03:00.1", "10000:e1:00.0", "::.", "0000:03:00.8"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParsePCIAddress(text)
		if err != nil {
			return
		}
		if a.String() != text || !a.IsValid() {
			t.Errorf("%q is written %q", text, a)
		}
		var back PCIAddress
		if err := back.UnmarshalText([]byte(text)); err != nil || back != a {
			t.Errorf("%q: %v, %v", text, back, err)
		}
	})
}

func TestNames_LookupInPCIDatabase(t *testing.T) {
	known, unknown := [2]ID{0x15b3, 0x101d}, [2]ID{0x15b3, 0xffff}
	reads := 0
	names := NewNames(func(ids ...[2]uint16) []netdev.PCIName { reads++; return netdev.PCINames(ids...) })
	for range 2 { // read, then remembered
		got := names.Lookup(map[[2]ID]bool{known: true, unknown: true})
		if want := (netdev.PCIName{Vendor: "Mellanox Technologies", Product: "MT2892 Family [ConnectX-6 Dx]"}); got[known] != want {
			t.Errorf("%+v, want %+v", got[known], want)
		}
		if want := (netdev.PCIName{Vendor: "Mellanox Technologies"}); got[unknown] != want {
			t.Errorf("product that is not in the database: %+v, want %+v", got[unknown], want)
		}
	}
	if reads != 1 {
		t.Errorf("the database was read %d times", reads)
	}
	t.Setenv("PCIDB_PATH", "testdata/absent")
	if got := NewNames(netdev.PCINames).Lookup(map[[2]ID]bool{known: true}); got[known] != (netdev.PCIName{}) {
		t.Errorf("without a database: %+v", got[known])
	}
}
