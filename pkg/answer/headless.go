package answer

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// headless says that a service has no address, and chooses the streams to the ports of its pods: DNS gives clients the pods' own
// addresses, so no flow knows the service.
func (d *Deciding) headless(s *snapshot.Snapshot, svc *corev1.Service) (func(streams.Stream) bool, error) {
	none := func(streams.Stream) bool { return false }
	if len(svc.Spec.Selector) == 0 {
		d.Facts = append(d.Facts, "headless, without a selector: its ends are those of EndpointSlices that are made by hand. Use explain pod/NAME")
		return none, nil
	}
	if s.Missing[snapshot.Pods] != "" {
		return none, nil // the answer says so
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	open := map[string]bool{} // by pod, protocol and port; flows without a port, or a protocol, are for all
	for i := range pods {
		pod := &pods[i]
		if pod.Namespace != svc.Namespace || !labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			continue
		}
		name := "pod/" + pod.Namespace + "/" + pod.Name
		d.SelectedPods = append(d.SelectedPods, name)
		open[name+" "] = true
		for _, port := range svc.Spec.Ports {
			protocol := name + " " + protocolOf(port.Protocol)
			open[protocol], open[fmt.Sprintf("%s%d", protocol, targetPort(pod, port))] = true, true
		}
	}
	n := len(d.SelectedPods)
	d.Selected = &n
	d.Facts = append(d.Facts, "headless: it has no address and no load balancer. Its ends are its pods, whose streams on its ports are below, whichever name the clients asked for")
	return func(stream streams.Stream) bool {
		end := stream.To
		if stream.Via != "" {
			end = stream.Via
		}
		isAny := len(svc.Spec.Ports) == 0 && open[end+" "] // headless services need no ports
		return stream.Direction != flowapi.Reply && (isAny || open[end+" "+stream.Protocol+stream.Port])
	}, nil
}

// protocolOf is the protocol of a port as streams have it.
func protocolOf(protocol corev1.Protocol) string {
	if protocol == "" {
		return "tcp"
	}
	return strings.ToLower(string(protocol))
}

// targetPort is the port of a pod that a port of a service leads to; 0: the pod has no port of the name.
func targetPort(pod *corev1.Pod, port corev1.ServicePort) int32 {
	if port.TargetPort.Type != intstr.String {
		if port.TargetPort.IntVal != 0 {
			return port.TargetPort.IntVal
		}
		return port.Port
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal && protocolOf(p.Protocol) == protocolOf(port.Protocol) {
				return p.ContainerPort
			}
		}
	}
	return 0
}
