package conncheck

import (
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// external is the group, and the kind of its targets.
const external = "external"

// External are the cases of addresses outside the cluster, each ADDRESS:PORT of a server that accepts connections. The control
// is a pod that may send nothing. Where the packets are handled is not compared.
func External(addresses []string) (cases []Case, err error) {
	seen := map[netip.AddrPort]bool{}
	for _, text := range addresses {
		to, err := netip.ParseAddrPort(text)
		if err != nil || to.Port() == 0 || to.Addr().Zone() != "" || to.Addr().Is4In6() || to.Addr().IsUnspecified() {
			return nil, fmt.Errorf("--external=%s: want ADDRESS:PORT of TCP outside the cluster, of IPv6 as [ADDRESS]:PORT", text)
		}
		if seen[to] {
			continue
		}
		seen[to] = true
		family := 4
		if to.Addr().Is6() {
			family = 6
		}
		for _, r := range []row{{from: "client"}, {from: "other"}, {from: "host-a"}, {from: "caged", want: probe.Timeout}} {
			r.to = external + "/" + to.String()
			cases = append(cases, r.of(external, "tcp", family))
		}
	}
	return cases, nil
}
