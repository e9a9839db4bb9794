package answer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// FlowResources are what names the ends of flows.
func FlowResources() []snapshot.Resource {
	return []snapshot.Resource{snapshot.Nodes, snapshot.Pods, snapshot.Services}
}

// Whose knows the objects that have the addresses of a cluster. Other addresses stay as they are.
func Whose(s *snapshot.Snapshot) (streams.Names, error) {
	names, err := owners(s)
	if err != nil {
		return nil, err
	}
	return func(address string) string {
		if name, ok := names[address]; ok {
			return name
		}
		return address
	}, nil
}

// owners are the names of objects by their addresses.
func owners(s *snapshot.Snapshot) (map[string]string, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	services, err := snapshot.Objects[corev1.Service](s, snapshot.Services)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, n := range f.nodes {
		for _, a := range n.Status.Addresses {
			names[a.Address] = "node/" + n.Name
		}
	}
	for _, pod := range f.pods {
		for _, n := range interfaces(pod.Annotations[contract.PodNetworksKey]) {
			for _, a := range n.Addresses {
				address, _, _ := strings.Cut(a, "/")
				names[address] = "pod/" + pod.Namespace + "/" + pod.Name
			}
		}
	}
	for _, s := range services {
		for _, address := range s.Spec.ClusterIPs {
			names[address] = "svc/" + s.Namespace + "/" + s.Name
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			names[in.IP] = "svc/" + s.Namespace + "/" + s.Name
		}
	}
	delete(names, "")
	delete(names, corev1.ClusterIPNone)
	return names, nil
}

// maxHosts bounds the nodes whose pods are read one by one for their names.
const maxHosts = 16

// PodsAtEnds selects the pods that the flows of a pod may come from or go to: those of its node, and of the nodes at the other
// ends of its tunnels. Where these do not lead to all ends, as for a pod on several networks, all pods are selected.
func PodsAtEnds(s *snapshot.Snapshot, e *PodExplained, flows []flowapi.Flow) ([]snapshot.Selected, error) {
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	host := tunnelEnds(nodes)
	host[""] = e.Node
	var pods []snapshot.Selected
	for _, f := range flows {
		name, ok := host[f.Tunnel]
		on := snapshot.Selected{Fields: "spec.nodeName=" + name}
		if ok && slices.Contains(pods, on) {
			continue
		}
		if !ok || len(e.Networks) > 1 || len(pods) == maxHosts {
			return []snapshot.Selected{{}}, nil
		}
		pods = append(pods, on)
	}
	return pods, nil
}

// tunnelEnds are the nodes by the addresses at which their tunnels may end.
func tunnelEnds(nodes []corev1.Node) map[string]string {
	host := map[string]string{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			host[a.Address] = n.Name
		}
		tunnels, _ := contract.ParseEncapIPs(n.Annotations[contract.NodeEncapIPsKey]) // most nodes have none: their tunnels end at the address of the node
		for _, address := range tunnels {
			host[address.String()] = n.Name
		}
	}
	return host
}
