// Package nearby reads what names the ends of flows, and no more: the list of all pods of a large cluster takes longer than the
// rest of an answer, and so do the agents of all nodes.
//
// Place in the data flow:
//
//	kubectl offload flows, explain, trace -> Reader -> lists of the API server, flows of nodes -> snapshot -> pkg/answer
//
// It is a package of its own because it knows no flags: a Reader has functions that read.
package nearby

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/inject"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Reader reads from a cluster, or an archive.
type Reader struct {
	// System is the namespace of the network's own pods.
	System string
	// IsArchive: each list has all that there is.
	IsArchive bool
	Lists     func(ctx context.Context, lists map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error)
	// Flows are those of a node, or of all for "", and what is missing of them.
	Flows func(ctx context.Context, s *snapshot.Snapshot, node string, q flowapi.Query) ([]flowapi.Flow, []string, error)
}

// Of reads what names the ends of flows, of pods those of a namespace, of a node, and of the network itself: the list of all pods
// of a large cluster takes longer than all else. Without a namespace and a node, all pods are read.
func (r Reader) Of(ctx context.Context, namespace, node string) (*snapshot.Snapshot, error) {
	pods := []snapshot.Selected{{Namespace: r.System}}
	switch {
	case namespace != "":
		pods = append(pods, snapshot.Selected{Namespace: namespace})
	case node != "":
		pods = append(pods, snapshot.Selected{Fields: "spec.nodeName=" + node})
	default:
		pods = []snapshot.Selected{{}}
	}
	return r.around(ctx, pods)
}

// around reads what names the ends of flows, with these pods.
func (r Reader) around(ctx context.Context, pods []snapshot.Selected, more ...snapshot.Resource) (*snapshot.Snapshot, error) {
	lists := map[snapshot.Resource][]snapshot.Selected{}
	for _, resource := range append(answer.FlowResources(), more...) {
		lists[resource] = resource.Lists(r.System)
	}
	lists[snapshot.Pods] = pods
	return r.Lists(ctx, lists)
}

// AddEnds reads the pods at the ends of flows that have no names.
func (r Reader) AddEnds(ctx context.Context, s *snapshot.Snapshot, flows []flowapi.Flow) error {
	if r.IsArchive {
		return nil
	}
	pods, err := answer.FarEnds(s, flows)
	if err != nil {
		return err
	}
	return r.AddPods(ctx, s, pods)
}

// AddPods reads further pods.
func (r Reader) AddPods(ctx context.Context, s *snapshot.Snapshot, pods []snapshot.Selected) error {
	if r.IsArchive || len(pods) == 0 {
		return nil
	}
	read, err := r.Lists(ctx, map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: pods})
	if err == nil {
		snapshot.Merge(s, read)
	}
	return err
}

// Between reads what names the ends of a connection: the pods at its ends, and those of their nodes.
func (r Reader) Between(ctx context.Context, inNamespace, source, target string, more ...snapshot.Resource) (*snapshot.Snapshot, error) {
	pods := []snapshot.Selected{{Namespace: r.System}}
	objects, address := trace.Ends{Namespace: inNamespace}.Objects(source, target)
	for _, object := range objects {
		if kind, name, _ := strings.Cut(object, "/"); kind == "pod" {
			namespace, short, _ := strings.Cut(name, "/")
			pods = append(pods, snapshot.Selected{Namespace: namespace, Fields: "metadata.name=" + short})
		}
	}
	s, err := r.around(ctx, pods, more...)
	if err != nil || r.IsArchive {
		return s, err
	}
	found, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	var hosts []snapshot.Selected
	for _, node := range trace.Hosts(source, target) {
		hosts = append(hosts, snapshot.Selected{Fields: "spec.nodeName=" + node})
	}
	for _, pod := range found {
		if node := pod.Spec.NodeName; pod.Namespace != r.System && node != "" {
			hosts = append(hosts, snapshot.Selected{Fields: "spec.nodeName=" + node})
		}
		if _, primary := contract.PrimaryOf(pod.Annotations[contract.PodNetworksKey]); primary != nil && address.IsValid() {
			return s, r.AddPods(ctx, s, []snapshot.Selected{{}}) // the API server has no list by addresses of such networks
		}
	}
	if address.IsValid() {
		at, err := hostOf(s, address)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, at)
	}
	return s, r.AddPods(ctx, s, hosts)
}

// hostOf are the pods of the node whose subnet has an address.
func hostOf(s *snapshot.Snapshot, address netip.Addr) (snapshot.Selected, error) {
	node, err := answer.HostOf(s, address)
	if node == "" {
		return snapshot.Selected{Fields: "status.podIP=" + address.String()}, err
	}
	return snapshot.Selected{Fields: "spec.nodeName=" + node}, err
}

// AddEndpoints reads the pods at endpoints of the default network, and at most those of inject.MostReceivers.
func (r Reader) AddEndpoints(ctx context.Context, s *snapshot.Snapshot, endpoints []netip.AddrPort) error {
	var pods []snapshot.Selected
	for _, at := range endpoints[:min(len(endpoints), inject.MostReceivers)] {
		more, err := hostOf(s, at.Addr())
		if err != nil {
			return err
		}
		if !slices.Contains(pods, more) {
			pods = append(pods, more)
		}
	}
	return r.AddPods(ctx, s, pods)
}

// maxHosts are so many nodes that not all are asked.
const maxHosts = 64

// Service reads what is known of a service "namespace/name". Its clients may be anywhere: of many nodes, only those of the pods of
// its namespace are asked, and then those from which packets come to them.
func (r Reader) Service(ctx context.Context, name string) (s *snapshot.Snapshot, flows []flowapi.Flow, missing []string, err error) {
	namespace, _, _ := strings.Cut(name, "/")
	if s, err = r.Of(ctx, namespace, ""); err != nil {
		return nil, nil, nil, err
	}
	q := flowapi.Query{Why: true}
	if len(s.Shared(snapshot.Nodes)) > maxHosts && !r.IsArchive {
		q.Namespace = namespace
	}
	if flows, missing, err = r.Flows(ctx, s, "", q); err != nil {
		return nil, nil, nil, err
	}
	if q.Namespace != "" {
		if flows, missing, err = r.addClients(ctx, s, flows, missing); err != nil {
			return nil, nil, nil, err
		}
	}
	return s, flows, missing, r.AddEnds(ctx, s, flows)
}

// addClients asks the nodes at the other ends of tunnels for all their flows: there the service is one end of them.
func (r Reader) addClients(ctx context.Context, s *snapshot.Snapshot, flows []flowapi.Flow, missing []string) ([]flowapi.Flow, []string, error) {
	hosts, err := answer.TunnelHosts(s, flows)
	if err != nil {
		return nil, nil, err
	}
	if left := len(hosts) - maxHosts; left > 0 {
		hosts, missing = hosts[:maxHosts], append(missing, fmt.Sprintf("flows of %d nodes with clients: at most %d are asked", left, maxHosts))
	}
	for _, host := range hosts {
		all, left, err := r.Flows(ctx, s, host, flowapi.Query{Why: true})
		if err != nil {
			return nil, nil, err
		}
		flows = slices.DeleteFunc(flows, func(f flowapi.Flow) bool { return f.Node == host })
		flows, missing = append(flows, all...), append(missing, left...)
	}
	return flows, missing, nil
}

// AddRegarded looks for the objects that Warnings are about: Events outlive their objects, and their reasons. An archive has them.
func (r Reader) AddRegarded(ctx context.Context, s *snapshot.Snapshot) error {
	lists, err := answer.Regarded(s)
	if err != nil || r.IsArchive || len(lists) == 0 {
		return err
	}
	read, err := r.Lists(ctx, lists)
	if err == nil {
		s.Known.Add(read, lists)
		snapshot.Merge(s, read)
	}
	return err
}
