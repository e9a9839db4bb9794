package answer

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// FlowResources are what names the ends of flows.
func FlowResources() []snapshot.Resource {
	return []snapshot.Resource{snapshot.Nodes, snapshot.Pods, snapshot.Services}
}

// Whose knows the objects that have the addresses of a cluster. Other addresses stay as they are.
func Whose(s *snapshot.Snapshot) (streams.Names, error) {
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
	return func(address string) string {
		if name, ok := names[address]; ok {
			return name
		}
		return address
	}, nil
}
