package lb

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// HostPorts gives the load balancers of the ports that a pod has on its node by a network, one for each protocol: at own,
// the node's addresses on the gateway bridge, or at those that the pod names.
func HostPorts(net contract.Network, zone contract.Zone, pod *corev1.Pod, own []netip.Addr, network *contract.PodNetwork) []ovsdb.Row {
	vips := map[corev1.Protocol]map[string]string{}
	for _, container := range contract.RunningContainers(pod) {
		for _, port := range container.Ports {
			for _, at := range hostAddresses(port, own) {
				behind, ok := contract.FamilyOf(at).Pick(network.Addresses)
				if !ok {
					continue
				}
				protocol := protocolOf(port.Protocol)
				if vips[protocol] == nil {
					vips[protocol] = map[string]string{}
				}
				vip := netip.AddrPortFrom(at, uint16(port.HostPort)).String()
				vips[protocol][vip] = netip.AddrPortFrom(behind.Addr(), uint16(port.ContainerPort)).String()
			}
		}
	}
	var rows []ovsdb.Row
	for protocol, pairs := range vips {
		rows = append(rows, hostPortRow(scope{net, zone}, pod, protocol, pairs))
	}
	return rows
}

// hostAddresses are those of a node's own at which a pod's port answers.
func hostAddresses(port corev1.ContainerPort, own []netip.Addr) []netip.Addr {
	var out []netip.Addr
	at, ok := contract.HostPort(port)
	if !ok {
		return nil
	}
	for _, address := range own {
		if !at.IsValid() || at == address {
			out = append(out, address)
		}
	}
	return out
}

func hostPortRow(net scope, pod *corev1.Pod, protocol corev1.Protocol, vips map[string]string) ovsdb.Row {
	id := "hostport_" + string(protocol)
	lower := strings.ToLower(string(protocol))
	options := balancerOptions(net)
	// The pod is on the node where the packet came in, so its reply returns there without SNAT.
	options["skip_snat"] = "true"
	return ovsdb.Row{
		ID: id,
		Model: &nb.LoadBalancer{
			Name: "Pod_" + pod.Namespace + "/" + pod.Name + "_" + id, Protocol: &lower, Vips: vips, Options: options,
			ExternalIDs: map[string]string{"k8s.ovn.org/kind": contract.KindPod, "k8s.ovn.org/owner": pod.Namespace + "/" + pod.Name},
		},
		Parents: []ovsdb.Parent{
			{Table: nb.LogicalSwitchTable, Name: net.PodSwitch(pod.Spec.NodeName), Column: columnLoadBalancer},
			{Table: nb.LogicalRouterTable, Name: contract.Network{}.GatewayRouter(pod.Spec.NodeName), Column: columnLoadBalancer},
		},
	}
}
