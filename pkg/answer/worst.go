package answer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Worst are the pods with the smallest share of packets in hardware.
type Worst struct {
	Header
	Pods []WorstPod `json:"pods"`
}

// WorstPod is one of them.
type WorstPod struct {
	Node string `json:"node"`
	v1alpha1.PodTraffic
}

// WorstResources are what NewWorst reads.
func WorstResources() []snapshot.Resource { return []snapshot.Resource{snapshot.NodeOffloads} }

// NewWorst finds at most n pods. Pods that are in hardware as a whole are none of them.
func NewWorst(s *snapshot.Snapshot, n int) (*Worst, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	w := &Worst{Header: header("Worst", s)}
	w.Next = "kubectl offload top"
	for _, node := range f.offloads {
		for _, t := range node.Status.Traffic {
			if t.Packets.Hardware < 100 {
				w.Pods = append(w.Pods, WorstPod{node.Name, t})
			}
		}
	}
	slices.SortFunc(w.Pods, func(a, b WorstPod) int {
		return cmp.Or(cmp.Compare(a.Packets.Hardware, b.Packets.Hardware), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Port, b.Port))
	})
	w.Pods = w.Pods[:min(n, len(w.Pods))]
	if len(w.Pods) > 0 {
		w.Code, w.Next = max(w.Code, Degraded), "kubectl offload explain pod/"+w.Pods[0].Pod
	}
	return w, nil
}

// Text implements Answer.
func (w *Worst) Text(p *Page) {
	if len(w.Pods) == 0 {
		p.Line("no pod with a VF has traffic outside hardware")
		return
	}
	rows := [][]string{{"POD", "NODE", "HARDWARE", "BECAUSE"}}
	for _, pod := range w.Pods {
		reason := ""
		if len(pod.Outside) > 0 {
			reason = because(pod.Outside[0])
		}
		rows = append(rows, []string{pod.Pod, pod.Node, fmt.Sprintf("%d %%", pod.Packets.Hardware), reason})
	}
	p.Names(rows)
	p.Line("")
}
