package setup

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// bondNode is the node of an archive with a bond of a NIC's ports in legacy mode, drained.
func bondNode(t *testing.T, spoil *strings.Replacer) State {
	t.Helper()
	text, err := os.ReadFile("../testdata/bond-legacy.txtar")
	if err != nil {
		t.Fatal(err)
	}
	w, err := vftest.Parse([]byte(spoil.Replace(string(text))))
	if err != nil {
		t.Fatal(err)
	}
	inv, err := (&vf.Node{Sysfs: w.Sysfs(), Kernel: w.Kernel, Links: w, Names: vf.NewNames(netdev.PCINames)}).Read()
	if err != nil {
		t.Fatal(err)
	}
	return State{PFs: inv.PFs, Bonds: inv.Bonds, Boot: "boot-1", Node: "n1", Users: Users{Cordoned: true}, Units: map[string]string{}}
}

// TestBond_PlansOfArchive: both ports of one card go from legacy to switchdev mode with VFs, in place one after the other,
// or by units at the next boot. What a card would not offload, and what would cut the node off, is refused.
func TestBond_PlansOfArchive(t *testing.T) {
	inPlace := v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{first, "0000:03:00.1"}},
		NumVFs: 2, UplinkChange: v1alpha1.UplinkInPlace}
	atBoot, one, byDefault, all := inPlace, inPlace, inPlace, inPlace
	atBoot.UplinkChange, byDefault.UplinkChange = v1alpha1.UplinkAtBoot, ""
	one.PFSelector.PCIAddresses = []string{first}
	all.PFSelector = v1alpha1.PFSelector{Vendors: []string{"15b3"}}
	asIs, broadcast := strings.NewReplacer(), strings.NewReplacer("802.3ad 4", "broadcast 3")
	twoCards := strings.NewReplacer("slaves=ens1f0np0 ens1f1np1", "slaves=ens1f0np0 ens2f0np0")
	noCarrier := strings.NewReplacer("ens1f1np1 --\naddress=10:70:fd:b3:a2:c4  mtu=1500  flags=up  carrier=1", "ens1f1np1 --\naddress=10:70:fd:b3:a2:c4  mtu=1500  flags=up  carrier=0")
	noLACP := func(port string) *strings.Replacer {
		return strings.NewReplacer(port+" --\naddress=10:70:fd:b3:a2:c4  mtu=1500  flags=up  carrier=1  hw-tc-offload=off  master=bond0  lacp=yes",
			port+" --\naddress=10:70:fd:b3:a2:c4  mtu=1500  flags=up  carrier=1  hw-tc-offload=off  master=bond0  lacp=no")
	}
	moved := func(pf string) string {
		return pf + ": save original state of " + pf + " (0 VFs, legacy); set eswitch of " + pf +
			" to switchdev, with the node's addresses; set number of VFs of " + pf + " to 2"
	}
	for name, c := range map[string]struct {
		spec  v1alpha1.OffloadPolicySpec
		spoil *strings.Replacer
		want  []string
	}{
		"in place": {inPlace, asIs, []string{moved("0000:03:00.0"), moved("0000:03:00.1")}},
		"in place, active-backup": {inPlace, strings.NewReplacer("802.3ad 4", "active-backup 1"),
			[]string{moved("0000:03:00.0"), moved("0000:03:00.1")}},
		"at boot": {atBoot, asIs, []string{
			"0000:03:00.0: write unit ovn-offload-sriov-0000:03:00.0.service of the host",
			"0000:03:00.1: write unit ovn-offload-sriov-0000:03:00.1.service of the host",
		}},
		"by default": {byDefault, asIs, []string{
			"0000:03:00.0 Refused a change of the eswitch's mode would interrupt ens1f0np0, which is a port of bond0",
			"0000:03:00.1 Refused a change of the eswitch's mode would interrupt ens1f1np1, which is a port of bond0",
		}},
		"in place, one port selected": {one, asIs, []string{
			"0000:03:00.0 Refused ens1f0np0, which is a port of bond0: the policy does not select ens1f1np1 (0000:03:00.1), the other port: set uplinkChange",
		}},
		"in place, the other port without carrier": {inPlace, noCarrier, []string{
			"0000:03:00.0 Refused ens1f0np0, which is a port of bond0: the other port ens1f1np1 has no carrier, and would have to carry the traffic meanwhile",
			moved("0000:03:00.1"),
		}},
		"in place, the other port without LACP": {inPlace, noLACP("ens1f1np1"), []string{
			"0000:03:00.0 Refused ens1f0np0, which is a port of bond0: the other port ens1f1np1 has not negotiated LACP with the switch, and would have to carry the traffic meanwhile",
			moved("0000:03:00.1"),
		}},
		"in place, no port with LACP": {inPlace, strings.NewReplacer("lacp=yes", "lacp=no"), []string{moved("0000:03:00.0"), moved("0000:03:00.1")}},
		"in place, two cards": {all, twoCards, []string{
			"0000:03:00.0 Refused ens1f0np0 is a port of bond0, which would not be offloaded: its ports are of different cards",
			"0000:03:00.1 Refused ens1f1np1 is a port of bond0, which would not be offloaded: its ports are of different cards",
			strings.ReplaceAll(moved("0000:04:00.0"), ", with the node's addresses", ""),
		}},
		"at boot, two cards": {atBoot, twoCards, []string{
			"0000:03:00.0 Refused ens1f0np0 is a port of bond0, which would not be offloaded: its ports are of different cards",
			"0000:03:00.1 Refused ens1f1np1 is a port of bond0, which would not be offloaded: its ports are of different cards",
		}},
		"in place, wrong mode": {inPlace, broadcast, []string{
			"0000:03:00.0 Refused ens1f0np0 is a port of bond0, which would not be offloaded: NICs do not offload mode broadcast",
			"0000:03:00.1 Refused ens1f1np1 is a port of bond0, which would not be offloaded: NICs do not offload mode broadcast",
		}},
		"at boot, wrong mode": {atBoot, broadcast, []string{
			"0000:03:00.0 Refused ens1f0np0 is a port of bond0, which would not be offloaded: NICs do not offload mode broadcast",
			"0000:03:00.1 Refused ens1f1np1 is a port of bond0, which would not be offloaded: NICs do not offload mode broadcast",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := bondNode(t, c.spoil)
			wants, notes := Select([]*v1alpha1.OffloadPolicy{policy("p", 1, c.spec)}, nil, s)
			if len(notes) > 0 {
				t.Fatalf("%+v", notes)
			}
			var got []string
			for i, change := range Plan(s, wants) {
				text := change.PF + ": " + planned(Change{Steps: change.Steps})
				if change.Refused != "" && len(change.Steps) == 0 {
					text = change.PF + " " + strings.TrimSpace(string(change.State)+" ") + "Refused " + change.Refused
				}
				if i < len(c.want) { // what follows in the message is what to do
					text = text[:min(len(text), len(c.want[i]))]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
