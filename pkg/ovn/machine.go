package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// dhcpLease is the time in seconds after half of which a virtual machine asks again; OVN-Kubernetes' value.
const dhcpLease = 3500

// machineRows change the port of a pod with a virtual machine, and give the rows that it refers to. Two pods of one virtual
// machine have the same addresses: the port of the one in which it does not run has none and sends nothing. On a primary
// network the virtual machine gets its addresses by DHCP.
func machineRows(view View, net scope, pod *corev1.Pod, network *contract.PodNetwork, row *ovsdb.Row) (rows []ovsdb.Row) {
	name := pod.Labels[contract.VMLabel]
	port, ok := row.Model.(*nb.LogicalSwitchPort)
	if name == "" || !ok {
		return nil
	}
	if contract.StandsBy(pod, view.PodsIn(pod.Namespace)) {
		turnOff(row)
	}
	if !net.IsPrimary() || len(network.Gateways) == 0 {
		return nil
	}
	for _, address := range network.Addresses {
		column, options := "dhcpv6_options", map[string]string{"server_id": routerMAC(net, network)}
		if address.Addr().Is4() {
			column, options = "dhcpv4_options", dhcpv4(net, network, name)
		}
		if server := dnsAddress(view, contract.FamilyOf(address.Addr())); server != "" {
			options["dns_server"] = server
		}
		id := "dhcp " + port.Name + " " + acl.FamilyOf(address.Addr())
		rows = append(rows, ovsdb.Row{ID: id, Model: &nb.DHCPOptions{
			Cidr: address.Masked().String(), Options: options, ExternalIDs: net.externalIDs(ovsdb.NameKey, id),
		}})
		row.References = append(row.References, ovsdb.Reference{Column: column, Table: nb.DHCPOptionsTable, Name: id})
	}
	return rows
}

// turnOff makes a port whose pod sends and gets nothing: another port has its addresses. OVN does not know which of two
// ports of a switch with one MAC gets a packet.
func turnOff(row *ovsdb.Row) {
	if port, ok := row.Model.(*nb.LogicalSwitchPort); ok {
		off := false
		port.Addresses, port.Enabled = nil, &off
	}
}

// dhcpv4 has what a lease says beside the address. The server's address is that of the network's router.
func dhcpv4(net scope, network *contract.PodNetwork, name string) map[string]string {
	options := map[string]string{
		"lease_time": strconv.Itoa(dhcpLease), "hostname": fmt.Sprintf("%q", name),
	}
	if net.MTU > 0 {
		options["mtu"] = strconv.Itoa(net.MTU)
	}
	for _, gateway := range network.Gateways {
		if gateway.Is4() {
			options["router"], options["server_id"], options["server_mac"] = gateway.String(), gateway.String(), routerMAC(net, network)
		}
	}
	return options
}

// routerMAC is that of the router's port on the switch of a pod.
func routerMAC(net scope, network *contract.PodNetwork) string {
	if net.Topology != contract.Layer3 {
		return contract.RouterMAC(net.Network).String()
	}
	return contract.MACFromAddress(network.Gateways[0]).String()
}

// dnsAddress is that of the cluster's DNS, the first of the services that pods of primary networks reach which answers at the port of
// DNS; "" without one.
func dnsAddress(view View, family contract.Family) string {
	const dns = 53
	for _, service := range view.SharedServices() {
		if !slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == dns }) {
			continue
		}
		for _, text := range service.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(text); err == nil && family.Has(addr) {
				return text
			}
		}
	}
	return ""
}

// advertisements tell virtual machines the router and the MTU in IPv6, and to ask for their addresses by DHCP. Pods ignore
// them. The values are those of OVN-Kubernetes.
func advertisements(net scope) map[string]string {
	if _, ok := contract.IPv6.Pick(net.Prefixes()); !ok || !net.IsPrimary() {
		return nil
	}
	config := map[string]string{
		"address_mode": "dhcpv6_stateful", "send_periodic": "true", "min_interval": "300", "max_interval": "900", "router_preference": "LOW",
	}
	if net.MTU > 0 {
		config["mtu"] = strconv.Itoa(net.MTU)
	}
	return config
}
