// Package missing tells users of pods that run without an interface that they ask for.
//
// Place in the data flow:
//
//	kube.NodeView: pods of the node that run -> Watch.Changed -> ports of the local Open vSwitch -> Event of the pod
//
// With networks.native the agent makes the interfaces on further networks, without it Multus does, by a CNI ADD for
// each. If neither does, no ADD comes, and nothing but this package notices.
package missing

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Pause is the time for which a pod must have run. The port is there before the pod runs, but its event may come later.
const Pause = 5 * time.Second

// Deps is what a Watch asks.
type Deps struct {
	// Pod is nil for one that is not on the node.
	Pod func(namespace, name string) *corev1.Pod
	// HasPort reports whether the local Open vSwitch has a port of a pod on a network. Connected is false while nothing is
	// known about ports.
	HasPort   func(owner contract.Owner) bool
	Connected func() bool
	Warn      func(owner contract.Owner, reason, note string)
	// Native says that the agent makes the interfaces.
	Native bool
}

// Watch looks at each pod once in its life.
type Watch struct {
	deps Deps

	mu   sync.Mutex
	seen map[contract.Owner]types.UID
}

// New makes a Watch.
func New(deps Deps) *Watch {
	return &Watch{deps: deps, seen: map[contract.Owner]types.UID{}}
}

// Changed takes owners of changed pods; others are left out.
func (w *Watch) Changed(owners ...contract.Owner) {
	for _, owner := range owners {
		if owner.Kind != contract.KindPod {
			continue
		}
		pod := w.deps.Pod(owner.Namespace, owner.Name)
		if w.isNew(owner, pod) {
			time.AfterFunc(Pause, func() { w.look(owner, pod.UID) })
		}
	}
}

// isNew is true once for each pod that runs and asks for networks.
func (w *Watch) isNew(owner contract.Owner, pod *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case pod == nil:
		delete(w.seen, owner)
		return false
	case !asks(pod) || w.seen[owner] == pod.UID:
		return false
	}
	w.seen[owner] = pod.UID
	return true
}

func asks(pod *corev1.Pod) bool {
	return contract.WantsNetwork(pod) && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && contract.AsksForNetworks(pod)
}

// look reports what a pod lacks. A later change of the pod brings it back if nothing is known about ports.
func (w *Watch) look(owner contract.Owner, uid types.UID) {
	pod := w.deps.Pod(owner.Namespace, owner.Name)
	if pod == nil || pod.UID != uid || !asks(pod) {
		return
	}
	if !w.deps.Connected() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.seen, owner)
		return
	}
	if lacks := w.lacks(owner, pod); len(lacks) > 0 {
		w.deps.Warn(owner, "InterfaceMissing", fmt.Sprintf("the pod runs without %s: %s", strings.Join(lacks, ", "), w.advice()))
	}
}

// lacks names the networks that the controller has given the pod an address on, and that have no port. Networks of other
// CNI types are not the agent's.
func (w *Watch) lacks(owner contract.Owner, pod *corev1.Pod) (lacks []string) {
	further, err := contract.Attachments(pod)
	if err != nil {
		return nil // the controller reports the error
	}
	for _, f := range further {
		recorded, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], f.Key())
		if err == nil && recorded != nil && !w.deps.HasPort(owner.On(f.Key())) {
			lacks = append(lacks, fmt.Sprintf("interface %s on network %s", f.Interface, f.NAD))
		}
	}
	return lacks
}

func (w *Watch) advice() string {
	if w.deps.Native {
		return "networks.native was not set when it started; delete the pod, so that it starts again"
	}
	return "neither networks.native nor Multus makes it; set networks.native to true or install Multus, and delete the pod, so that it starts again"
}
