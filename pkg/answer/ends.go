package answer

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// maxFarHosts bounds the nodes whose pods are read one by one for the names of far ends. Beyond it the list of all pods is as fast.
const maxFarHosts = 64

// FarEnds selects the pods of the nodes at which flows have ends without a name: their own, and those at the other ends of their
// tunnels. Where a tunnel leads to no node, or the network is a further one, which may have no tunnels, all pods are selected.
func FarEnds(s *snapshot.Snapshot, flows []flowapi.Flow) ([]snapshot.Selected, error) {
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	names, err := Whose(s)
	if err != nil {
		return nil, err
	}
	host := tunnelEnds(nodes)
	var pods []snapshot.Selected
	for i := range flows {
		f := &flows[i]
		if !hasUnknownEnd(f, names) {
			continue
		}
		name := f.Node
		if f.Tunnel != "" {
			name = host[f.Tunnel]
		}
		on := snapshot.Selected{Fields: "spec.nodeName=" + name}
		if slices.Contains(pods, on) {
			continue
		}
		if name == "" || networkOf(f) != contract.DefaultNetwork || len(pods) == maxFarHosts {
			return []snapshot.Selected{{}}, nil
		}
		pods = append(pods, on)
	}
	return pods, nil
}

// hasUnknownEnd says whether an address of a flow has no name. Ports of pods have theirs from the agent.
func hasUnknownEnd(f *flowapi.Flow, names streams.Names) bool {
	isUnknown := func(address string, isNamed bool) bool {
		return address != "" && address != flowapi.Withheld && !isNamed && !strings.Contains(address, "/") && names(networkOf(f), address) == address
	}
	to := slices.ContainsFunc(f.To, func(e flowapi.End) bool { return e.Pod != "" })
	return isUnknown(f.Source, f.From.Pod != "") || isUnknown(f.Target, to)
}

// networkOf is that of a flow's ports.
func networkOf(f *flowapi.Flow) string {
	network := f.From.Network
	for _, end := range f.To {
		network = cmp.Or(network, end.Network)
	}
	return cmp.Or(network, contract.DefaultNetwork)
}

// TunnelHosts are the nodes at the other ends of the tunnels of flows.
func TunnelHosts(s *snapshot.Snapshot, flows []flowapi.Flow) ([]string, error) {
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	host := tunnelEnds(nodes)
	var names []string
	for _, f := range flows {
		if name := host[f.Tunnel]; name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// HostOf is the node whose subnet of the default network has an address; "": none has it.
func HostOf(s *snapshot.Snapshot, address netip.Addr) (string, error) {
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		subnets, _ := contract.ParseNodeSubnets(n.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork) // a new node has none
		for _, subnet := range subnets {
			if subnet.Contains(address) {
				return n.Name, nil
			}
		}
	}
	return "", nil
}
