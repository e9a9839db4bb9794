package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Finding is traffic of a workload that would not be in hardware.
type Finding struct {
	Workload string `json:"workload"`
	// Object is what causes it.
	Object string `json:"object"`
	// Traffic is what is concerned.
	Traffic string `json:"traffic"`
	// Reason and Detail are those of NodeOffload.
	Reason offload.Reason `json:"reason"`
	Detail string         `json:"detail,omitempty"`
	// Loses says that the traffic never is in hardware. Else it is only the first packets of each connection.
	Loses bool `json:"loses"`
}

// Check gives the findings of workloads that ask for one of some resources of VFs, by workload and object.
func Check(w World, resources []string) []Finding {
	var found []Finding
	for _, load := range w.workloads {
		asks, lost := asksVF(load.pod.Spec, resources)
		if lost != "" {
			found = append(found, Finding{Workload: load.name, Object: load.name, Traffic: "all", Reason: offload.ReasonPort, Detail: lost, Loses: true})
		}
		if !asks {
			continue
		}
		found = append(found, w.logged(load)...)
		for _, service := range w.services {
			found = append(found, w.serves(load, service, resources)...)
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Object, b.Object))
	})
	return found
}

// asksVF says whether a pod asks for a VF that its network can use. Lost is the reason why the pod gets no such VF although
// it asks for one.
func asksVF(spec corev1.PodSpec, resources []string) (asks bool, lost string) {
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range spec.Containers {
		asks = asks || wants(c, resources)
	}
	for _, c := range spec.InitContainers {
		switch sidecar := c.RestartPolicy != nil && *c.RestartPolicy == always; {
		case !wants(c, resources):
		case sidecar:
			asks = true
		default:
			lost = "the VF is asked for by init container " + c.Name + ", which is no sidecar"
		}
	}
	switch {
	case asks && spec.HostNetwork:
		return false, "the pod has hostNetwork and a VF"
	case asks:
		return true, ""
	}
	return false, lost
}

func wants(c corev1.Container, resources []string) bool {
	return slices.ContainsFunc(resources, func(name string) bool {
		limit, has := c.Resources.Limits[corev1.ResourceName(name)]
		return has && !limit.IsZero()
	})
}

// logged finds policies whose decisions are logged: each packet visits ovn-controller.
func (w World) logged(load workload) []Finding {
	var levels struct{ Allow, Deny string }
	annotation := w.namespaces[load.pod.Namespace].Annotations[contract.ACLLoggingKey]
	if json.Unmarshal([]byte(annotation), &levels) != nil || levels.Allow == "" {
		return nil // what is denied is dropped, wherever that is
	}
	var found []Finding
	for _, policy := range w.policies {
		if policy.Namespace != load.pod.Namespace || !selects(&policy.Spec.PodSelector, load) || !allows(policy) {
			continue
		}
		found = append(found, Finding{
			Workload: load.name, Object: "netpol/" + policy.Namespace + "/" + policy.Name, Reason: offload.ReasonSlowPath, Detail: "controller", Loses: true,
			Traffic: fmt.Sprintf("what it allows: annotation %s of the namespace logs it", contract.ACLLoggingKey),
		})
	}
	return found
}

func allows(policy networkingv1.NetworkPolicy) bool {
	return len(policy.Spec.Ingress)+len(policy.Spec.Egress) > 0
}

func selects(selector *metav1.LabelSelector, load workload) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(load.pod.Labels))
}

// serves looks at a service from its ends on VFs, and from clients on VFs in its namespace.
func (w World) serves(load workload, service corev1.Service, resources []string) []Finding {
	if service.Namespace != load.pod.Namespace || len(service.Spec.Selector) == 0 || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	finding := Finding{Workload: load.name, Object: "svc/" + service.Namespace + "/" + service.Name}
	var found []Finding
	for _, port := range service.Spec.Ports {
		f := finding
		switch port.Protocol {
		case corev1.ProtocolSCTP:
			f.Traffic, f.Reason, f.Detail, f.Loses = fmt.Sprintf("SCTP port %d", port.Port), offload.ReasonRefused, "NICs do not track SCTP", true
		case corev1.ProtocolUDP:
			f.Traffic, f.Reason, f.Detail = fmt.Sprintf("UDP port %d: the first packet of a stream", port.Port), offload.ReasonAction, "hash"
		default: // TCP: a connection has packets enough
			continue
		}
		found = append(found, f)
	}
	if outside := w.outside(service, resources); outside != "" {
		f := finding
		f.Traffic, f.Reason, f.Detail, f.Loses = "to the service's endpoint "+outside, offload.ReasonOutput, "the endpoint has no VF", true
		found = append(found, f)
	}
	return found
}

// outside is a workload without a VF behind a service.
func (w World) outside(service corev1.Service, resources []string) string {
	for _, load := range w.workloads {
		if load.pod.Namespace != service.Namespace || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(load.pod.Labels)) {
			continue
		}
		if asks, _ := asksVF(load.pod.Spec, resources); !asks {
			return load.name
		}
	}
	return ""
}
