package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// TestSNAT_IsForExternalHostsOnly: in northd's flows, a packet to an external host takes the address of its pod's node in
// the gateway router of that node, and leaves there. A packet to a pod of any node, or to a management port, meets no
// gateway router and keeps its source. Without the rows for NAT, packets leave with the pod's address.
func TestSNAT_IsForExternalHostsOnly(t *testing.T) {
	pods := []string{"one", "two", "three", "next"}
	d := startDualStack(t, "ns/one@n1", "ns/two@n2", "ns/three@n3", "ns/next@n1")
	for _, without := range []bool{false, true} {
		rows := d.rows("")
		if without {
			d.clear()
			rows = slices.DeleteFunc(rows, func(row ovsdb.Row) bool { _, isNAT := row.Model.(*nb.NAT); return isNAT })
		}
		d.write(rows)
		d.meetNextHops()
		d.startTracer()
		for _, from := range pods {
			for family := range families() {
				d.wantOutside(from, family, !without)
				for _, to := range pods {
					if to != from {
						target := netip.AddrPortFrom(d.address(to, family), 8080)
						d.wantInside(d.tracePod(from, to, "tcp", target), from, d.port(to))
					}
				}
				if node := d.pods["two"].node; d.pods[from].node != node {
					target := netip.AddrPortFrom(managementOf(node, family), 10250)
					d.wantInside(d.traceOut(from, "tcp", target), from, fmt.Sprint("k8s-n", node))
				}
			}
		}
	}
}

func managementOf(node int, family contract.Family) netip.Addr {
	if family == contract.IPv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%d::2", node))
	}
	return netip.AddrFrom4([4]byte{10, 244, byte(node), 2})
}

// wantOutside checks the way of a pod's packet to an external host.
func (d *dualStack) wantOutside(from string, family contract.Family, translates bool) {
	d.t.Helper()
	node := d.pods[from].node
	outside, address := "192.0.2.1", fmt.Sprint("172.18.0.", node)
	if family == contract.IPv6 {
		outside, address = "2001:db8::1", fmt.Sprint("fc00::", node)
	}
	trace := d.traceOut(from, "tcp", netip.AddrPortFrom(netip.MustParseAddr(outside), 443))
	_, after, gateway := strings.Cut(trace, fmt.Sprintf("ingress(dp=%q,", fmt.Sprint("GR_n", node)))
	if translates {
		_, after, translates = strings.Cut(after, fmt.Sprintf("ct_snat(%s.src=%s)", families()[family], address))
		if !translates {
			d.t.Errorf("from %s to %s: the source does not become %s in GR_n%d:\n%s", from, outside, address, node, trace)
			return
		}
	} else if strings.Contains(trace, "ct_snat") {
		d.t.Errorf("from %s to %s: translated without NAT, so this test shows nothing:\n%s", from, outside, trace)
	}
	if others := strings.Count(trace, `ingress(dp="GR_`); !gateway || others != 1 || !reaches(after, fmt.Sprint("breth0_n", node)) {
		d.t.Errorf("from %s to %s: does not leave by GR_n%d alone:\n%s", from, outside, node, trace)
	}
}

// wantInside checks the way of a packet that stays in the cluster.
func (d *dualStack) wantInside(trace, from, port string) {
	d.t.Helper()
	if strings.Contains(trace, "ct_snat") || strings.Contains(trace, `dp="GR_`) || !reaches(trace, port) {
		d.t.Errorf("from %s to %s: want no gateway router and no translation:\n%s", from, port, trace)
	}
}
