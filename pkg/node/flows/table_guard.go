package flows

import (
	"fmt"
	"net/netip"
	"slices"
)

// guarded drops what must not come from the physical network. A masquerade address is
// the node's own business: as a source it passes all policies, as a destination it is
// the node under another name.
func guarded(b Bridge) []string {
	flows := append(fromGuests(b), fragments(b)...)
	if b.Uplink == 0 {
		return flows
	}
	for _, subnet := range b.Masquerade {
		flows = append(flows, dropSubnet(b.Uplink, 115, subnet)...)
	}
	return flows
}

// fromGuests drops what the host of a DPU must not send by its own PF: tunnels, in
// which it could say anything, and whatever claims to be from the DPU.
func fromGuests(b Bridge) []string {
	const priority = 300
	var flows []string
	for _, port := range b.Guests {
		in := fmt.Sprintf("in_port=%d,", port)
		drop := func(match string) { flows = append(flows, flow(0, priority, in+match, "drop")) }
		for _, udp := range []string{"udp", "udp6"} {
			drop(fmt.Sprintf("%s,tp_dst=%d", udp, geneve))
		}
		drop("dl_src=" + b.MAC)
		for _, own := range b.Own {
			drop(family(own) + "," + from(own))
			if own.Is4() {
				drop("arp,arp_spa=" + own.String())
			} else {
				drop(fmt.Sprintf("icmp6,icmp_type=%d,nd_target=%s", neighborAdvert, own))
			}
		}
		for _, subnet := range b.Masquerade {
			flows = append(flows, dropSubnet(port, priority, subnet)...)
		}
		for _, subnet := range slices.Concat(b.ClusterSubnets, b.RoutedSubnets) {
			drop(to(subnet))
		}
	}
	return flows
}

// fragments drop Geneve in fragments of UDP that the router or the host of a DPU sends.
// OVS does not show the port of a fragment. Conntrack needs all fragments of a packet to
// tell its port: the kernel's joins them, that of the userspace datapath gives each one
// the packet's tuple. Fragments of which it can make no packet are dropped, too. In IPv6
// only the first fragment names its protocol.
func fragments(b Bridge) []string {
	ports := slices.Clone(b.Guests)
	for _, r := range b.Routers {
		ports = append(ports, r.Port)
	}
	if len(ports) == 0 {
		return nil
	}
	flows := []string{flow(tableFragments, 0, "", "drop")}
	const tracked, udp = ",ct_state=-inv+trk", ",ct_nw_proto=17"
	for _, packets := range []string{"udp", "ipv6"} {
		for _, port := range ports {
			flows = append(flows, flow(0, 290, fmt.Sprintf("in_port=%d,%s,nw_frag=yes,ct_state=-trk", port, packets), fmt.Sprintf("ct(zone=%d,table=%d)", zoneFragments, tableFragments)))
		}
		flows = append(flows, flow(tableFragments, 20, fmt.Sprintf("%s,ct_tp_dst=%d", packets+tracked+udp, geneve), "drop"))
	}
	return append(flows,
		flow(tableFragments, 10, "udp"+tracked+udp, "resubmit(,0)"),
		flow(tableFragments, 10, "ipv6"+tracked, "resubmit(,0)"),
	)
}

// dropSubnet drops what comes from or goes to a subnet.
func dropSubnet(port, priority int, subnet netip.Prefix) []string {
	in := fmt.Sprintf("in_port=%d,", port)
	return []string{
		flow(0, priority, in+family(subnet.Addr())+","+fromAny(subnet), "drop"),
		flow(0, priority, in+to(subnet), "drop"),
	}
}
