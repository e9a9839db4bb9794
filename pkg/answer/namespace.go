package answer

import (
	"cmp"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// InNamespace leaves of summaries the pods of a namespace, with their sum in place of that of the node; "": all. What is outside
// hardware counts by the reason of most of each pod's packets.
func InNamespace(summaries []*flowapi.Summary, namespace string) []*flowapi.Summary {
	if namespace == "" {
		return summaries
	}
	var all []*flowapi.Summary
	for _, summary := range summaries {
		out := *summary
		out.Total, out.Outside, out.Pods = offload.Share{}, nil, nil
		for _, pod := range summary.Pods {
			if pod.Namespace != namespace {
				continue
			}
			out.Pods = append(out.Pods, pod)
			out.Total.Add(pod.Traffic)
			var outside offload.Count
			for _, at := range offload.Places() {
				if at != offload.Hardware {
					outside.Add(*pod.Traffic.At(at))
				}
			}
			if pod.Reason != "" && outside.Packets > 0 {
				out.Outside = append(out.Outside, offload.Cause{Reason: pod.Reason, Detail: pod.Detail, Count: outside})
			}
		}
		slices.SortStableFunc(out.Outside, func(a, b offload.Cause) int { return cmp.Compare(b.Packets, a.Packets) })
		all = append(all, &out)
	}
	return all
}
