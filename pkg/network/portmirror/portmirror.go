// Package portmirror says whose packets PortMirrors copy, and where copies go.
//
// Place in the data flow: informer (pkg/kube) -> Parse -> rows (pkg/ovn).
package portmirror

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Mirror is a PortMirror. One with a Problem selects nothing.
type Mirror struct {
	Name    string
	Problem error
	// NAD is that of the sources' interfaces, "" for the default network.
	NAD       string
	Direction string
	// Tunnel is nil when pods are the collectors.
	Tunnel *v1alpha1.MirrorTunnel
	// CollectorNAD is that of the collectors' interfaces, "" with a Tunnel.
	CollectorNAD string

	sources    selection
	collectors collectors
}

// collectors are none as the zero value.
type collectors struct {
	namespace string
	pods      labels.Selector
}

// selection selects nothing as the zero value.
type selection struct{ namespaces, pods labels.Selector }

// Parse reads a PortMirror.
func Parse(object *unstructured.Unstructured) *Mirror {
	m := &Mirror{Name: object.GetName()}
	m.Problem = m.parse(object)
	if m.Problem != nil {
		m.sources, m.collectors = selection{}, collectors{}
	}
	return m
}

func (m *Mirror) parse(object *unstructured.Unstructured) (err error) {
	mirror, err := v1alpha1.Decode[v1alpha1.PortMirror](object)
	if err != nil {
		return err
	}
	spec := mirror.Spec
	m.NAD, m.Direction, m.Tunnel = spec.Network, spec.Direction, spec.Collector.Tunnel
	if m.sources, err = parseSelection(spec.Sources); err != nil {
		return fmt.Errorf("spec.sources: %w", err)
	}
	pods := spec.Collector.Pods
	if (pods == nil) == (m.Tunnel == nil) {
		return errors.New("spec.collector: needs either tunnel or pods")
	}
	if pods == nil {
		return nil
	}
	m.CollectorNAD, m.collectors.namespace = pods.Network, pods.Namespace
	if m.collectors.pods, err = metav1.LabelSelectorAsSelector(&pods.PodSelector); err != nil {
		return fmt.Errorf("spec.collector.pods: podSelector: %w", err)
	}
	return nil
}

func parseSelection(from v1alpha1.PodSelection) (s selection, err error) {
	if s.namespaces, err = metav1.LabelSelectorAsSelector(&from.NamespaceSelector); err != nil {
		return s, fmt.Errorf("namespaceSelector: %w", err)
	}
	if s.pods, err = metav1.LabelSelectorAsSelector(&from.PodSelector); err != nil {
		return s, fmt.Errorf("podSelector: %w", err)
	}
	return s, nil
}

func (s selection) has(pod *corev1.Pod, namespace *corev1.Namespace) bool {
	return pod != nil && namespace != nil && s.pods != nil && contract.WantsNetwork(pod) &&
		s.namespaces.Matches(labels.Set(namespace.Labels)) && s.pods.Matches(labels.Set(pod.Labels))
}

// Copies says whether the packets of a pod, which may be nil, are copied.
func (m *Mirror) Copies(pod *corev1.Pod, namespace *corev1.Namespace) bool {
	return m.sources.has(pod, namespace)
}

// Collects says whether a pod, which may be nil, can get copies of packets of its node's pods.
func (m *Mirror) Collects(pod *corev1.Pod) bool {
	return pod != nil && m.collectors.pods != nil && pod.Namespace == m.collectors.namespace && contract.WantsNetwork(pod) &&
		m.collectors.pods.Matches(labels.Set(pod.Labels)) && slices.Contains(contract.NetworkKeys(pod.Annotations[contract.PodNetworksKey]), m.CollectorNAD)
}
