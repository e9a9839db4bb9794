package ipam

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// CheckSubnets refuses a plan that does not have the annotated subnet of a node in
// which a pod has its address: the node would get another subnet and the pod
// another address, with which nothing tells the pod's interface. Nodes without such
// pods may get another subnet at any time. Both annotations must agree, so that a
// forged one does not keep the controller from its work.
func (c Config) CheckSubnets(nodes []*corev1.Node, pods []*corev1.Pod) error {
	foreign := map[string][]netip.Prefix{} // by node
	for _, node := range nodes {
		// An annotation that cannot be read names no subnet: rows say what is in use.
		subnets, _ := contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork)
		for _, subnet := range subnets {
			if part, ok := c.part(subnet.Addr()); !ok || part != subnet {
				foreign[node.Name] = append(foreign[node.Name], subnet)
			}
		}
	}
	for _, pod := range pods {
		for _, subnet := range foreign[pod.Spec.NodeName] {
			if hasAddressIn(pod, subnet) {
				return fmt.Errorf("node %s has subnet %s, where pod %s/%s has its address, and the address plan %s has no such subnet: "+
					"restore the former plan, or delete the pods of such nodes and start with --renumber-nodes",
					pod.Spec.NodeName, subnet, pod.Namespace, pod.Name, c.clusterList())
			}
		}
	}
	return nil
}

func hasAddressIn(pod *corev1.Pod, subnet netip.Prefix) bool {
	if !contract.WantsNetwork(pod) {
		return false
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil || network == nil {
		return false
	}
	for _, address := range network.Addresses {
		if subnet.Contains(address.Addr()) {
			return true
		}
	}
	return false
}

// clusterList is the form that ParseClusterSubnets reads.
func (c Config) clusterList() string {
	list := make([]string, len(c.Cluster))
	for i, subnet := range c.Cluster {
		list[i] = subnet.String()
	}
	return strings.Join(list, ",")
}
