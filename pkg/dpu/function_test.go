package dpu

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

func read(t *testing.T, archive string) vf.Inventory {
	t.Helper()
	text, err := os.ReadFile("../vf/testdata/" + archive)
	must(t, err)
	world, err := vftest.Parse(text)
	must(t, err)
	node := vf.Node{Sysfs: world.Sysfs(), Kernel: world.Kernel, Links: world}
	inv, err := node.Read()
	must(t, err)
	return inv
}

func number(n uint32) *contract.FunctionNumber {
	f := contract.FunctionNumber(n)
	return &f
}

func TestFind_FunctionByNumberOrAddressOfPF(t *testing.T) {
	mac := func(text string) (m contract.MAC) {
		must(t, m.UnmarshalText([]byte(text)))
		return m
	}
	second, both, zero := []uint32{2}, []uint32{1, 2}, []uint32{0}
	bluefield, controllers, direct := read(t, "bluefield2-dpu.txtar"), read(t, "controllers.txtar"), read(t, "socket-direct.txtar")
	old := clone(bluefield)
	for i := range old.PFs {
		for j := range old.PFs[i].Representors {
			old.PFs[i].Representors[j].Function.External = false
			old.PFs[i].Representors[j].Function.Controller = 0
		}
	}
	twins := clone(bluefield) // a second card with the same numbers
	more := clone(bluefield)
	for i := range more.PFs {
		more.PFs[i].Eswitch.ID = "other"
		for j := range more.PFs[i].Representors {
			r := &more.PFs[i].Representors[j]
			r.Name += "-b"
			if isSet(r.FunctionMAC) {
				r.FunctionMAC = vf.MAC{0x5c, 0, 0, 0, 0, byte(i)}
			}
		}
	}
	twins.PFs = append(twins.PFs, more.PFs...)
	half := clone(bluefield) // the address of its PF 0 only is known
	half.PFs[1].Representors = append(half.PFs[1].Representors, vf.Representor{
		Netdev: vf.Netdev{Name: "pf1vf1"}, Function: vf.PortName{Flavour: netdev.FlavourVF, External: true, Controller: 1, PF: 1, Number: 1},
	})
	legacy := clone(bluefield)
	for i := range legacy.PFs {
		legacy.PFs[i].Eswitch.Mode = vf.Legacy
	}
	silent := clone(bluefield) // the addresses of PFs are zeros
	for i := range silent.PFs {
		for j := range silent.PFs[i].Representors {
			silent.PFs[i].Representors[j].FunctionMAC = make(vf.MAC, 6)
		}
	}
	vf1 := contract.DPUConnection{VF: number(1)}
	for name, tc := range map[string]struct {
		inv         vf.Inventory
		controllers []uint32
		c           contract.DPUConnection
		want        string // a netdev, or of an error "!" and a part
	}{
		"by number":           {bluefield, nil, vf1, "pf0vf1"},
		"by address":          {bluefield, nil, contract.DPUConnection{PF: 5, VF: number(1), PFMAC: mac("5c:ce:eb:27:78:76")}, "pf0vf1"},
		"another address":     {bluefield, nil, contract.DPUConnection{VF: number(1), PFMAC: mac("5c:ce:eb:27:78:77")}, "!no PF of this DPU's host has the address 5c:ce:eb:27:78:77"},
		"PF without address":  {half, nil, contract.DPUConnection{PF: 1, VF: number(1), PFMAC: mac("5c:ce:eb:27:78:77")}, "pf1vf1"},
		"PF with address":     {half, nil, contract.DPUConnection{PF: 1, VF: number(1), PFMAC: mac("5c:ce:eb:27:78:76")}, "pf0vf1"},
		"PF that lies":        {half, nil, contract.DPUConnection{PF: 0, VF: number(1), PFMAC: mac("5c:ce:eb:27:78:77")}, "!no PF of this DPU's host has the address 5c:ce:eb:27:78:77"},
		"no PF has one":       {silent, nil, contract.DPUConnection{VF: number(1), PFMAC: mac("3c:fd:fe:00:00:01")}, "!knows no address of a PF, and host worker does not say that the PF with the address 3c:fd:fe:00:00:01 is of this DPU"},
		"a PF of this DPU":    {silent, nil, contract.DPUConnection{VF: number(1), PFMAC: mac("5c:ce:eb:27:78:76"), OfDPU: true}, "pf0vf1"},
		"absent VF":           {bluefield, nil, contract.DPUConnection{VF: number(2)}, "!no function pf0vf2"},
		"absent PF":           {bluefield, nil, contract.DPUConnection{PF: 1, VF: number(0)}, "!no function pf1vf0"},
		"the DPU's own SF":    {bluefield, nil, contract.DPUConnection{SF: number(0)}, "!no function pf0sf0"},
		"legacy mode":         {legacy, nil, vf1, "!no function pf0vf1"},
		"two hosts":           {controllers, nil, contract.DPUConnection{VF: number(0)}, "!functions of the controllers 1, 2, and its settings do not say which of them are host worker"},
		"the second host":     {controllers, second, contract.DPUConnection{VF: number(0)}, "rep_b"},
		"one machine":         {controllers, zero, contract.DPUConnection{VF: number(0)}, "rep_own"},
		"one machine, absent": {controllers, zero, contract.DPUConnection{VF: number(1)}, "!no function pf0vf1"},
		"old driver":          {old, nil, vf1, "pf0vf1"},
		"old driver, no host": {old, second, vf1, "!no function pf0vf1"},
		"two cards":           {twins, nil, vf1, "!several representors (pf0vf1, pf0vf1-b)"},
		"first card":          {twins, nil, contract.DPUConnection{VF: number(1), PFMAC: mac("5c:ce:eb:27:78:76")}, "pf0vf1"},
		"second card":         {twins, nil, contract.DPUConnection{VF: number(1), PFMAC: mac("5c:00:00:00:00:01")}, "pf0vf1-b"},
		"socket 0":            {direct, both, contract.DPUConnection{VF: number(0), PFMAC: mac("5c:ce:eb:27:78:76")}, "c1pf0vf0"},
		"socket 1":            {direct, both, contract.DPUConnection{VF: number(0), PFMAC: mac("5c:ce:eb:27:78:77")}, "c2pf0vf0"},
		"socket 1 only":       {direct, both, contract.DPUConnection{VF: number(1)}, "c2pf0vf1"},
		"either socket":       {direct, both, contract.DPUConnection{VF: number(0)}, "!several representors (c1pf0vf0, c2pf0vf0): its PF's address would tell them apart"},
		"one socket named":    {direct, second, contract.DPUConnection{VF: number(0), PFMAC: mac("5c:ce:eb:27:78:76")}, "!no PF of this DPU's host has the address 5c:ce:eb:27:78:76"},
		"both sockets absent": {direct, []uint32{2, 3, 4}, contract.DPUConnection{VF: number(5)}, "!no function pf0vf5: no such representor is here, and nothing of the host's controllers 3, 4"},
		"no socket named":     {direct, nil, contract.DPUConnection{VF: number(0)}, "!functions of the controllers 1, 2"},
		"nothing":             {vf.Inventory{}, nil, vf1, "!no function pf0vf1"},
	} {
		got, err := find(tc.inv, Serves{Host: host, Controllers: tc.controllers}, &tc.c)
		if part, bad := strings.CutPrefix(tc.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q, %v; want an error with %q", name, got.Name, err, part)
			}
		} else if err != nil || got.Name != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, got.Name, err, tc.want)
		}
	}
}

func TestParseControllers_ValidAndInvalid(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "0": "[0]", "2": "[2]", "1,2": "[1 2]", "2, 1": "[2 1]", "4294967295": "[4294967295]",
		"1,1": "!controller 1 is there twice", "0,1": "!controller 0 is this machine itself", "1,": `!controller "" is no number`,
		"c1": `!controller "c1" is no number from 0 to 4294967295`, "-1": "!is no number", "4294967296": "!is no number",
	} {
		got, err := ParseControllers(text)
		if part, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v, %v; want an error with %q", text, got, err, part)
			}
		} else if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

// clone copies what the test changes.
func clone(inv vf.Inventory) vf.Inventory {
	inv.PFs = append([]vf.PF(nil), inv.PFs...)
	for i := range inv.PFs {
		inv.PFs[i].Representors = append([]vf.Representor(nil), inv.PFs[i].Representors...)
	}
	return inv
}

// TestLinks_OfEachKindOfDPU: guests are representors of hosts' functions, their PFs
// included, and never the DPU's own SF; uplinks are those of the same switches.
func TestLinks_OfEachKindOfDPU(t *testing.T) {
	bluefield := read(t, "bluefield2-dpu.txtar")
	old := clone(bluefield)
	for i := range old.PFs {
		for j := range old.PFs[i].Representors {
			old.PFs[i].Representors[j].Function.External = false
		}
	}
	legacy := clone(bluefield)
	for i := range legacy.PFs {
		legacy.PFs[i].Eswitch.Mode = vf.Legacy
	}
	for name, tc := range map[string]struct {
		inv         vf.Inventory
		controllers []uint32
		want        string
	}{
		"BlueField":   {bluefield, nil, "[p0 p1] [pf0hpf pf0vf0 pf0vf1 pf1hpf]"},
		"old driver":  {old, nil, "[p0 p1] [pf0hpf pf0vf0 pf0vf1 pf1hpf]"},
		"legacy mode": {legacy, nil, "[] []"},
		"one machine": {read(t, "controllers.txtar"), []uint32{0}, "[p0] [rep_a rep_b rep_own]"},
		"two sockets": {read(t, "socket-direct.txtar"), []uint32{1, 2}, "[p0] [c1pf0hpf c1pf0vf0 c2pf0hpf c2pf0vf0 c2pf0vf1]"},
		"nothing":     {vf.Inventory{}, nil, "[] []"},
	} {
		uplinks, guests := Links(tc.inv, Serves{Host: host, Controllers: tc.controllers})
		if got := fmt.Sprint(uplinks, guests); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
