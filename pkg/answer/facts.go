package answer

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// facts are a snapshot's objects in their types.
type facts struct {
	taken      time.Time
	namespace  string
	nodes      []corev1.Node
	pods       []corev1.Pod
	offloads   []v1alpha1.NodeOffload
	policies   []v1alpha1.OffloadPolicy
	leases     map[string]coordinationv1.Lease
	events     []eventsv1.Event
	components []Component
	// objects are those of the snapshot, by which Events are known to be over.
	objects *snapshot.Snapshot
}

func readFacts(s *snapshot.Snapshot) (*facts, error) {
	f := &facts{objects: s, taken: s.Taken, namespace: s.Namespace, leases: map[string]coordinationv1.Lease{}}
	var leases []coordinationv1.Lease
	for _, read := range []func() error{
		read(s, snapshot.Nodes, &f.nodes), read(s, snapshot.Pods, &f.pods), read(s, snapshot.NodeOffloads, &f.offloads),
		read(s, snapshot.OffloadPolicies, &f.policies), read(s, snapshot.Events, &f.events), read(s, snapshot.Leases, &leases),
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for _, l := range leases {
		f.leases[l.Namespace+"/"+l.Name] = l
	}
	return f, f.readComponents(s)
}

func read[T any](s *snapshot.Snapshot, r snapshot.Resource, into *[]T) func() error {
	return func() (err error) {
		*into, err = snapshot.Objects[T](s, r)
		return err
	}
}

func (f *facts) readComponents(s *snapshot.Snapshot) error {
	var deployments []appsv1.Deployment
	var daemons []appsv1.DaemonSet
	var sets []appsv1.StatefulSet
	for _, read := range []func() error{
		read(s, snapshot.Deployments, &deployments), read(s, snapshot.DaemonSets, &daemons), read(s, snapshot.StatefulSets, &sets),
	} {
		if err := read(); err != nil {
			return err
		}
	}
	for _, d := range deployments {
		f.components = append(f.components, Component{d.Name, Ready{int(d.Status.ReadyReplicas), wanted(d.Spec.Replicas)}})
	}
	for _, d := range sets {
		f.components = append(f.components, Component{d.Name, Ready{int(d.Status.ReadyReplicas), wanted(d.Spec.Replicas)}})
	}
	for _, d := range daemons {
		if d.Status.DesiredNumberScheduled > 0 { // most sets of the chart are for nodes of other kinds
			f.components = append(f.components, Component{d.Name, Ready{int(d.Status.NumberReady), int(d.Status.DesiredNumberScheduled)}})
		}
	}
	return nil
}

func wanted(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

// installed says whether the network is in its namespace.
func installed(components []Component) bool {
	return slices.ContainsFunc(components, func(c Component) bool { return c.Name == controllerName })
}

const (
	controllerName = "ovnkube-master"
	leaderLease    = "ovn-kubernetes-master"
)

func (f *facts) leader() string {
	lease, ok := f.leases[f.namespace+"/"+leaderLease]
	if !ok || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// expired says how long ago a Lease ended; 0 if it has not.
func (f *facts) expired(lease coordinationv1.Lease) time.Duration {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	end := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	return max(f.taken.Sub(end), 0)
}

func (f *facts) dpuHosts() []string {
	var hosts []string
	for _, n := range f.nodes {
		if _, ok := n.Labels[contract.DPUHostLabel]; ok {
			hosts = append(hosts, n.Name)
		}
	}
	return hosts
}

// dpu says since when the DPU of a host is not ready, and why.
func (f *facts) dpu(host string) (since time.Duration, message string) {
	lease, ok := f.leases[f.namespace+"/"+contract.DPULeasePrefix+host]
	if !ok {
		return 0, fmt.Sprintf("there is no Lease %s%s: no DPU has joined", contract.DPULeasePrefix, host)
	}
	problem := lease.Annotations[contract.DPUProblemKey]
	switch since := f.expired(lease); {
	case problem != "":
		return since, "the DPU attaches no pods: " + problem
	case lease.Spec.RenewTime == nil:
		return 0, "the DPU has not renewed its Lease yet"
	case since > 0:
		return since, "the DPU does not renew its Lease"
	}
	return 0, ""
}
