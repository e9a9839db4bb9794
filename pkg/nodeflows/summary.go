package nodeflows

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// summarize adds the ports of each pod up, those of all its networks.
func summarize(node string, taken time.Time, report *offload.Report) *flowapi.Summary {
	s := &flowapi.Summary{
		Node: node, Taken: taken, Offload: report.Settings, Total: report.Total, Outside: report.Outside,
		Pods: []flowapi.PodSummary{}, Malformed: report.Malformed,
	}
	counted := &offload.Counted{}
	if report.Counted != nil {
		counted = report.Counted
	}
	s.CountedSince, s.Counted, s.CountedOutside = counted.Since, counted.Total, counted.Outside()
	pods := map[types.NamespacedName]*flowapi.PodSummary{}
	worst := map[types.NamespacedName]uint64{}
	for i := range report.Ports {
		port := &report.Ports[i]
		if port.Pod == (contract.Owner{}) {
			continue
		}
		name := types.NamespacedName{Namespace: port.Pod.Namespace, Name: port.Pod.Name}
		pod := pods[name]
		if pod == nil {
			of := counted.Pods[name]
			pod = &flowapi.PodSummary{Namespace: name.Namespace, Name: name.Name, Counted: of.Traffic, CountedDrops: of.Drops}
			pods[name] = pod
		}
		pod.Ports = append(pod.Ports, port.Name)
		pod.VF = pod.VF || port.Function
		pod.Traffic.Add(port.From)
		pod.Traffic.Add(port.To)
		pod.Drops.Add(port.Drops)
		if len(port.Outside) > 0 && (pod.Reason == "" || port.Outside[0].Packets > worst[name]) {
			worst[name] = port.Outside[0].Packets
			pod.Reason, pod.Detail = port.Outside[0].Reason, port.Outside[0].Detail
		}
	}
	for _, pod := range pods {
		s.Pods = append(s.Pods, *pod)
	}
	slices.SortFunc(s.Pods, func(a, b flowapi.PodSummary) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return s
}
