package ovn

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
)

// TestRouter_ItsMACLeadsToItAlone: in northd's flows, the MAC of a network's router leads to one port, and only the router
// answers for its address, though pods have the two, too. With the ports of these pods on, two ports do.
func TestRouter_ItsMACLeadsToItAlone(t *testing.T) {
	rows, answers := rowsOf(t, "testdata/primary-router.txtar"), map[bool]int{} // by whether the ports are on
	for _, isOn := range []bool{false, true} {
		for i := range rows {
			port, ok := rows[i].Model.(*nb.LogicalSwitchPort)
			if ok && isOn && port.Enabled != nil {
				on := *port
				on.Addresses, on.Enabled = on.PortSecurity, nil
				rows[i].Model = &on
			}
		}
		n := startNorthd(t)
		n.write(rows)
		flows := strings.Split(n.run("ovn-sbctl", "--timeout=30", "--db="+n.south, "lflow-list", "blue.l2_ovn_layer2_switch"), "\n")
		count := func(stage, match string) int {
			return len(slices.DeleteFunc(slices.Clone(flows), func(flow string) bool { return !strings.Contains(flow, stage) || !strings.Contains(flow, match) }))
		}
		lookups := map[string]int{
			"router": count("ls_in_l2_lkup", "eth.dst == 0a:58:0a:01:00:01)"), "pod": count("ls_in_l2_lkup", "eth.dst == 0a:58:0a:01:00:05)"),
		}
		answers[isOn] = count("ls_in_arp_rsp", "arp.tpa == 10.1.0.1 ")
		if want := map[bool]int{false: 1, true: 2}[isOn]; lookups["router"] != want || lookups["pod"] != 1 {
			t.Errorf("ports on %t: look-ups %v:\n%s", isOn, lookups, strings.Join(flows, "\n"))
		}
	}
	if answers[false] == 0 || answers[true] <= answers[false] {
		t.Errorf("answers for the router's address: %v", answers)
	}
}
