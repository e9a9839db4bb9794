package ovn

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// ErrRefused is wrapped by the error of an owner that may not have any rows, not
// those either that it has.
var ErrRefused = lb.ErrRefused

// buildPod gives the logical switch port of a pod that runs on the pod network,
// and its ports on its node.
func buildPod(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error) {
	namespace, name := owner.Namespace, owner.Name
	pod := view.Pod(namespace, name)
	if pod == nil || !contract.WantsNetwork(pod) {
		return nil, nil
	}
	if owner.Network != "" {
		return buildAttachment(view, net, owner, pod)
	}
	if portTaken(view.Node(name), net.PodPort(namespace, name)) {
		return nil, fmt.Errorf("%w: its port would be called %s, which is the gateway interface of node %s: give the pod another name", ErrRefused, net.PodPort(namespace, name), name)
	}
	network := view.Allocated(pod, net.Name)
	if network == nil {
		return nil, notReady("pod has no recorded address")
	}
	node, chassis, err := nodeOfPod(view, pod)
	if err != nil {
		return nil, err
	}
	policies, complete := view.PoliciesOf(pod, "")
	if !complete {
		return nil, notReady("namespace %s of the pod is not known", namespace)
	}
	address := portAddress(network.MAC, network.Addresses)
	port := switchPort(net.NodeSwitch(node.Name), &nb.LogicalSwitchPort{
		Name:         net.PodPort(namespace, name),
		Addresses:    []string{address},
		PortSecurity: []string{address},
		Options: map[string]string{
			"iface-id-ver":      string(pod.UID),
			"requested-chassis": chassis,
		},
		ExternalIDs: map[string]string{"namespace": namespace, "pod": "true"},
	})
	port.References = mirroredBy(view, pod, "")
	if view.Locked(pod) { // policies are for its primary network
		port.Parents = append(port.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: net.LockedGroup(), Column: columnPorts})
		opened, err := openPorts(net, pod, net.NodeSwitch(node.Name))
		return append([]ovsdb.Row{port}, opened...), err
	}
	joinGroups(&port, policies)
	rows := append([]ovsdb.Row{port}, routesToPod(net, node.Name, network)...)
	return append(rows, hostPorts(view, net, pod, node, network)...), nil
}

// hostPorts are none where the node has no gateway router, or where it does not know the network's pods: the pod's own port
// does not wait for it, and the node has an Event that says why.
func hostPorts(view View, net scope, pod *corev1.Pod, node *corev1.Node, network *contract.PodNetwork) []ovsdb.Row {
	if net.Name != "" && !isRouted(view, net) {
		return nil
	}
	n, err := parseNode(scope{Zone: net.Zone}, node.Name, node.Annotations)
	if err != nil {
		return nil
	}
	if has, err := n.hasGateway(); !has || err != nil {
		return nil
	}
	return lb.HostPorts(net.Network, net.Zone, pod, view.GatewayAddresses(node), network)
}

// joinGroups places a port in the groups of the policies that select its pod.
func joinGroups(port *ovsdb.Row, policies []*policy.Policy) {
	for _, policy := range policies {
		port.Parents = append(port.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: acl.PolicyGroup(policy.Owner), Column: columnPorts})
	}
}

// nodeOfPod is the node on which a pod runs, with its chassis.
func nodeOfPod(view View, pod *corev1.Pod) (node *corev1.Node, chassis string, err error) {
	if node = view.Node(pod.Spec.NodeName); node == nil {
		return nil, "", notReady("node %s of the pod is not known", pod.Spec.NodeName)
	}
	if chassis = node.Annotations[contract.NodeChassisIDKey]; chassis == "" {
		return nil, "", notReady("node %s of the pod has no chassis id", node.Name)
	}
	return node, chassis, nil
}

// buildAttachment gives the logical switch port of a pod on a further network. Without addresses the port may use any, and
// on a network whose pods forward.
func buildAttachment(view View, net scope, owner contract.Owner, pod *corev1.Pod) ([]ovsdb.Row, error) {
	network := view.Allocated(pod, owner.Network)
	if network == nil && !slices.Contains(contract.AttachmentKeys(pod), owner.Network) {
		return nil, nil // an earlier pod of the name had it
	}
	if network == nil {
		return nil, notReady("pod has no recorded address on network %s", net.Name)
	}
	node, chassis, err := nodeOfPod(view, pod)
	if err != nil {
		return nil, err
	}
	address := portAddress(network.MAC, network.Addresses)
	secured := address
	if net.Forward {
		secured = network.MAC.String()
	}
	ids := net.externalIDs(contract.NADLabel, contract.NADOf(owner.Network), "namespace", owner.Namespace, "pod", "true")
	port := switchPort(net.PodSwitch(node.Name), &nb.LogicalSwitchPort{
		Name:         contract.Network{Name: owner.Network}.PodPort(owner.Namespace, owner.Name),
		Addresses:    []string{address},
		PortSecurity: []string{secured},
		Options:      map[string]string{"iface-id-ver": string(pod.UID), "requested-chassis": chassis},
		ExternalIDs:  ids,
	})
	port.References = mirroredBy(view, pod, contract.NADOf(owner.Network))
	policies, _ := view.PoliciesOf(pod, net.Name) // which select in their own namespace
	joinGroups(&port, policies)
	leases := machineRows(view, net, pod, network, &port)
	if contract.OfRouter(net.Network, network) != "" {
		turnOff(&port)
	}
	return slices.Concat(leases, []ovsdb.Row{port}, hostPorts(view, net, pod, node, network)), nil
}

// portTaken says that a node, nil when there is none, has given the name of a pod's
// port to an external bridge. Such a pod bears the node's name, for which alone
// the names of a node's bridges are valid.
func portTaken(node *corev1.Node, port string) bool {
	if node == nil {
		return false
	}
	gateway, err := contract.ParseGatewayConfig(node.Annotations[contract.GatewayConfigKey], contract.DefaultNetwork)
	return err == nil && gateway != nil && (gateway.Interface == port || gateway.SecondGateway.Interface == port)
}
