package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Status is the whole installation on one screen.
type Status struct {
	Header
	// Nodes are all, and those without a problem.
	Nodes Ready `json:"nodes"`
	// Components are the network's Deployments, StatefulSets and DaemonSets, and its leader.
	Components []Component `json:"components"`
	// Leader is the controller's process that leads.
	Leader string `json:"leader,omitempty"`
	// Versions are the versions of agents, Open vSwitch and OVN, by the number of nodes.
	Versions map[string][]Count `json:"versions,omitempty"`
	// Offload says on how many nodes offload is on, off, or not possible.
	Offload map[v1alpha1.OffloadState]int `json:"offload,omitempty"`
	// DPUs are the hosts with a DPU, and those whose DPU is ready.
	DPUs Ready `json:"dpus,omitzero"`
	// VFs are those of all nodes.
	VFs v1alpha1.VFCount `json:"vfs"`
	// Traffic is that of pods with a VF.
	Traffic Traffic `json:"traffic,omitzero"`
	// Problems are sorted: the worst first.
	Problems []Problem `json:"problems,omitempty"`
}

// Ready counts what is ready, of all.
type Ready struct {
	Ready int `json:"ready"`
	All   int `json:"all"`
}

// Component is a workload of the network.
type Component struct {
	Name string `json:"name"`
	Ready
}

// Count says how often a value occurs.
type Count struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// Traffic sums the NodeOffloads up.
type Traffic struct {
	// HardwarePercent is the mean of the nodes that have such traffic.
	HardwarePercent int `json:"hardwarePercent"`
	// Nodes is their number.
	Nodes int `json:"nodes"`
	// Outside counts the pods of whose packets a tenth or more is outside hardware, by the reason with the most packets.
	Outside []Count `json:"outside,omitempty"`
}

// StatusResources are what NewStatus reads.
func StatusResources() []snapshot.Resource {
	return []snapshot.Resource{
		snapshot.Nodes, snapshot.NodeOffloads, snapshot.OffloadPolicies, snapshot.PhysicalNetworks, snapshot.Leases, snapshot.Events,
		snapshot.Deployments, snapshot.DaemonSets, snapshot.StatefulSets,
	}
}

// NewStatus computes the status.
func NewStatus(s *snapshot.Snapshot) (*Status, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	return newStatus(f, s), nil
}

func newStatus(f *facts, s *snapshot.Snapshot) *Status {
	problems := f.problems()
	st := &Status{
		Header: header("Status", s), Components: f.components, Leader: f.leader(), Versions: f.versions(), Offload: map[v1alpha1.OffloadState]int{},
		Problems: group(problems),
	}
	broken := ofNodes(problems)
	st.Nodes = Ready{len(f.nodes) - len(broken), len(f.nodes)}
	for _, host := range f.dpuHosts() {
		st.DPUs.All++
		if _, message := f.dpu(host); message == "" {
			st.DPUs.Ready++
		}
	}
	for _, n := range f.offloads {
		st.Offload[n.Status.Offload]++
		st.VFs.Total += n.Status.VFs.Total
		st.VFs.Used += n.Status.VFs.Used
		st.VFs.Reserved += n.Status.VFs.Reserved
		st.VFs.Free += n.Status.VFs.Free
	}
	st.Traffic = f.traffic()
	st.judge(installed(f.components), s.Namespace)
	return st
}

// ofNodes gives the worst severity of the problems of each node that has more than a notice.
func ofNodes(problems []Problem) map[string]Severity {
	out := map[string]Severity{}
	for _, p := range problems {
		if p.Severity == SeverityNotice {
			continue
		}
		for _, object := range p.Objects {
			if node, ok := strings.CutPrefix(object, "node/"); ok && out[node] != SeverityBroken {
				out[node] = p.Severity
			}
		}
	}
	return out
}

// judge sets the exit code and the next command.
func (st *Status) judge(installed bool, namespace string) {
	st.Code = verdict(st.Code, st.Problems)
	switch {
	case !installed && len(st.Missing) == 0:
		st.Problems = append(st.Problems, Problem{
			Severity: SeverityBroken, Objects: []string{"namespace/" + namespace}, Message: "it has no part of ovn-offload; --system-namespace names another one", See: "get-started",
		})
		st.Code, st.Next = Broken, "kubectl offload help get-started"
	case len(st.Problems) > 0:
		st.Next = st.Problems[0].next()
	case len(st.Missing) == 0:
		st.Next = "kubectl offload topology"
	}
}

// versions counts the nodes by version of each program.
func (f *facts) versions() map[string][]Count {
	counts := map[string]map[string]int{"agent": {}, "openvswitch": {}, "ovn": {}}
	for _, n := range f.offloads {
		v := n.Status.Versions
		for program, version := range map[string]string{"agent": v.Agent, "openvswitch": v.OpenVSwitch, "ovn": v.OVN} {
			if version != "" {
				counts[program][version]++
			}
		}
	}
	out := map[string][]Count{}
	for program, by := range counts {
		if len(by) > 0 {
			out[program] = sorted(by)
		}
	}
	return out
}

// sorted puts the most frequent first.
func sorted(counts map[string]int) []Count {
	out := make([]Count, 0, len(counts))
	for value, n := range counts {
		out = append(out, Count{value, n})
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) })
	return out
}

func (f *facts) traffic() Traffic {
	var t Traffic
	sum, outside := 0, map[string]int{}
	for _, n := range f.offloads {
		if p := n.Status.HardwarePercent; p != nil {
			sum, t.Nodes = sum+*p, t.Nodes+1
		}
		for _, sum := range n.Status.Outside {
			outside[sum.Reason] += sum.Pods
		}
		if len(n.Status.Outside) > 0 {
			continue
		}
		for _, pod := range n.Status.Traffic { // agents before the field outside
			if len(pod.Outside) > 0 && pod.Packets.MuchOutside() {
				outside[pod.Outside[0].Reason]++
			}
		}
	}
	if t.Nodes > 0 {
		t.HardwarePercent = sum / t.Nodes
	}
	t.Outside = sorted(outside)
	return t
}

// Text implements Answer.
func (st *Status) Text(p *Page) {
	p.Line("ovn-offload  %s, %d of %s without a problem", codeWords()[st.Code], st.Nodes.Ready, plural(st.Nodes.All, "node"))
	p.Line("")
	rows := [][]string{}
	for _, c := range st.Components {
		rows = append(rows, []string{c.Name, fmt.Sprintf("%d of %d ready", c.Ready.Ready, c.All)})
	}
	if st.Leader != "" {
		rows = append(rows, []string{"leader", st.Leader})
	}
	for _, program := range slices.Sorted(maps.Keys(st.Versions)) {
		rows = append(rows, []string{program, counts(st.Versions[program], "node")})
	}
	rows = append(rows, []string{"offload", fmt.Sprintf("on %d, off %d, no such NIC %d",
		st.Offload[v1alpha1.OffloadOn], st.Offload[v1alpha1.OffloadOff], st.Offload[v1alpha1.OffloadNone])})
	if st.DPUs.All > 0 {
		rows = append(rows, []string{"DPUs", fmt.Sprintf("%d of %d ready", st.DPUs.Ready, st.DPUs.All)})
	}
	rows = append(rows, []string{"VFs", fmt.Sprintf("%d: %d used, %d reserved, %d free", st.VFs.Total, st.VFs.Used, st.VFs.Reserved, st.VFs.Free)})
	if st.Traffic.Nodes > 0 {
		rows = append(rows, []string{"traffic", fmt.Sprintf("%d %% in hardware (mean of %s)", st.Traffic.HardwarePercent, plural(st.Traffic.Nodes, "node"))})
	}
	if len(st.Traffic.Outside) > 0 {
		rows = append(rows, []string{"outside", counts(st.Traffic.Outside, "pod")})
	}
	p.Table(rows)
	p.Line("")
	printProblems(p, st.Problems[:min(problemsShown, len(st.Problems))], st.Taken)
	if more := len(st.Problems) - problemsShown; more > 0 {
		p.Line("%s not shown: --problems has all", plural(more, "more problem"))
	}
}

// codeWords are the exit codes in words.
func codeWords() map[Code]string {
	return map[Code]string{Good: "all is well", Degraded: "works in part", Broken: "broken", Uncertain: "not all is known"}
}

// problemsShown keeps a status on one screen.
const problemsShown = 15

// OnlyProblems is a status whose text has the problems alone, and all of them.
type OnlyProblems struct{ *Status }

// Text implements Answer.
func (o OnlyProblems) Text(p *Page) { printProblems(p, o.Problems, o.Taken) }

// counts is "a (3 nodes), b (1 node)".
func counts(of []Count, what string) string {
	parts := make([]string, len(of))
	for i, c := range of {
		parts[i] = fmt.Sprintf("%s (%s)", c.Value, plural(c.Count, what))
	}
	return strings.Join(parts, ", ")
}
