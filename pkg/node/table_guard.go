package node

import (
	"fmt"
	"net/netip"
)

// guarded drops what must not come from the physical network. A masquerade address is
// the node's own business: as a source it passes all policies, as a destination it is
// the node under another name.
func guarded(w wire) []string {
	flows := fromGuests(w)
	if w.Uplink == 0 {
		return flows
	}
	for _, subnet := range w.Masquerade {
		flows = append(flows, dropSubnet(w.Uplink, 115, subnet)...)
	}
	return flows
}

// fromGuests drops what the host of a DPU must not send by its own PF: tunnels, in
// which it could say anything, and whatever claims to be from the DPU.
func fromGuests(w wire) []string {
	const priority = 300
	var flows []string
	for _, port := range w.Guests {
		in := fmt.Sprintf("in_port=%d,", port)
		drop := func(match string) { flows = append(flows, flow(0, priority, in+match, "drop")) }
		for _, udp := range []string{"udp", "udp6"} {
			drop(fmt.Sprintf("%s,tp_dst=%d", udp, geneve))
			// Fragments show their port once conntrack has joined them.
			flows = append(flows, flow(0, priority-10, in+udp+",nw_frag=yes", fmt.Sprintf("ct(zone=%d,table=%d)", zoneGuests, tableFragments)))
		}
		drop("dl_src=" + w.MAC)
		for _, own := range w.Own {
			drop(family(own) + "," + from(own))
			if own.Is4() {
				drop("arp,arp_spa=" + own.String())
			} else {
				drop(fmt.Sprintf("icmp6,icmp_type=%d,nd_target=%s", neighborAdvert, own))
			}
		}
		for _, subnet := range w.Masquerade {
			flows = append(flows, dropSubnet(port, priority, subnet)...)
		}
		for _, subnet := range w.ClusterSubnets {
			drop(to(subnet))
		}
	}
	if len(w.Guests) == 0 {
		return nil
	}
	for _, udp := range []string{"udp", "udp6"} {
		flows = append(flows,
			flow(tableFragments, 10, fmt.Sprintf("%s,tp_dst=%d", udp, geneve), "drop"),
			flow(tableFragments, 10, udp+",nw_frag=yes", "drop"), // the userspace datapath does not join them
		)
	}
	return append(flows, flow(tableFragments, 0, "", "NORMAL"))
}

// dropSubnet drops what comes from or goes to a subnet.
func dropSubnet(port, priority int, subnet netip.Prefix) []string {
	in := fmt.Sprintf("in_port=%d,", port)
	return []string{
		flow(0, priority, in+family(subnet.Addr())+","+fromAny(subnet), "drop"),
		flow(0, priority, in+to(subnet), "drop"),
	}
}
