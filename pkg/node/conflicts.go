package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// addOns are programs that give nodes an address on a link of their own, by the name of the link.
var addOns = map[string]string{ //nolint:gochecknoglobals // constant
	"nodelocaldns": "NodeLocal DNSCache", "kube-ipvs0": "kube-proxy",
}

// Conflicts names the addresses of the node within the masquerade subnets that are not the agent's. Pods do not reach
// them: the cluster router drops packets to these subnets.
func (c Config) Conflicts(s State) []string {
	var found []string
	for link, addrs := range s.Masquerade {
		for _, addr := range addrs {
			i := slices.IndexFunc(c.Zone.MasqueradeSubnets, func(subnet netip.Prefix) bool { return subnet.Contains(addr.Addr()) })
			subnet := c.Zone.MasqueradeSubnets[i]
			if addr == contract.PrefixAt(subnet.Masked(), contract.MasqueradeHost) {
				continue
			}
			by := ""
			if name := addOns[link]; name != "" {
				by = " (" + name + ")"
			}
			found = append(found, fmt.Sprintf("%s%s has %s, within the masquerade subnet %s", link, by, addr.Addr(), subnet))
		}
	}
	slices.Sort(found)
	return found
}

// MasqueradeProblem is why pods do not reach an address of the node, as the last pass has seen; nil when they do.
func (h *Host) MasqueradeProblem() error {
	conflicts := h.conflicts.Load()
	if conflicts == nil || len(*conflicts) == 0 {
		return nil
	}
	return fmt.Errorf("pods do not reach an address of the node: %s; set network.masqueradeCIDRs to a range that is not in use",
		strings.Join(*conflicts, ", "))
}
