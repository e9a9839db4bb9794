package answer

import (
	"cmp"
	"slices"

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

// FlowLists are those of FlowResources, and what is known of the NICs of the node of a flow.
func FlowLists(node, system string) map[snapshot.Resource][]snapshot.Selected {
	lists := map[snapshot.Resource][]snapshot.Selected{snapshot.NodeOffloads: {{Fields: "metadata.name=" + node}}}
	for _, r := range FlowResources() {
		lists[r] = r.Lists(system)
	}
	return lists
}

// Whose knows the objects that have the addresses of a cluster. Other addresses stay as they are.
func Whose(s *snapshot.Snapshot) (streams.Names, error) {
	o, err := ownersOf(s)
	if err != nil {
		return nil, err
	}
	return o.name, nil
}

// owners are the names of objects by their addresses.
type owners struct {
	// pods are by network, and shared are nodes and services, which all networks reach.
	pods   map[string]map[string]string
	shared map[string]string
	// networks are by the keys of pods' annotations: several NetworkAttachmentDefinitions may be of one network.
	networks map[string]string
}

// name gives no pod of another network than that of the packets. Where that is not known, it gives a pod only if no other has the
// address.
func (o owners) name(network, address string) string {
	if name, ok := o.shared[address]; ok {
		return name
	}
	if network != "" {
		return cmp.Or(o.pods[cmp.Or(o.networks[network], network)][address], address)
	}
	found := ""
	for _, pods := range o.pods {
		name, ok := pods[address]
		if ok && found != "" && name != found {
			return address
		}
		found = cmp.Or(name, found)
	}
	return cmp.Or(found, address)
}

// add adds the addresses of a pod.
func (o owners) add(pod *corev1.Pod) {
	for key, n := range podNetworks(pod.Annotations[contract.PodNetworksKey]) {
		network := cmp.Or(n.Network, key)
		o.networks[key] = network
		if o.pods[network] == nil {
			o.pods[network] = map[string]string{}
		}
		for _, a := range n.Addresses {
			o.pods[network][a.Addr().String()] = "pod/" + pod.Namespace + "/" + pod.Name
		}
	}
}

// addManagement adds the addresses with which a node sends to pods.
func (o owners) addManagement(node *corev1.Node) {
	subnets, _ := contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork) // a new node has none
	for _, subnet := range subnets {
		if o.pods[contract.DefaultNetwork] == nil {
			o.pods[contract.DefaultNetwork] = map[string]string{}
		}
		o.pods[contract.DefaultNetwork][contract.AddressAt(subnet, contract.ManagementOffset).String()] = "node/" + node.Name
	}
}

func ownersOf(s *snapshot.Snapshot) (owners, error) {
	o := owners{pods: map[string]map[string]string{}, shared: map[string]string{}, networks: map[string]string{}}
	f, err := readFacts(s)
	if err != nil {
		return o, err
	}
	services, err := snapshot.Objects[corev1.Service](s, snapshot.Services)
	if err != nil {
		return o, err
	}
	for _, n := range f.nodes {
		for _, a := range n.Status.Addresses {
			o.shared[a.Address] = "node/" + n.Name
		}
		o.addManagement(&n)
	}
	for i := range f.pods {
		o.add(&f.pods[i])
	}
	for _, s := range services {
		for _, address := range s.Spec.ClusterIPs {
			o.shared[address] = "svc/" + s.Namespace + "/" + s.Name
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			o.shared[in.IP] = "svc/" + s.Namespace + "/" + s.Name
		}
	}
	delete(o.shared, "")
	delete(o.shared, corev1.ClusterIPNone)
	return o, nil
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
