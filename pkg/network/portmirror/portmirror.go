// Package portmirror says whose packets PortMirrors copy, and where copies go.
//
// Place in the data flow: informer (pkg/kube) -> Parse -> rows (pkg/ovn).
package portmirror

import (
	"fmt"

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
	Tunnel    v1alpha1.MirrorTunnel

	sources selection
}

// selection selects nothing as the zero value.
type selection struct{ namespaces, pods labels.Selector }

// Parse reads a PortMirror.
func Parse(object *unstructured.Unstructured) *Mirror {
	m := &Mirror{Name: object.GetName()}
	m.Problem = m.parse(object)
	if m.Problem != nil {
		m.sources = selection{}
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
