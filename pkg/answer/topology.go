package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Topology is the tree of nodes, NICs, VFs and pods.
type Topology struct {
	Header
	Nodes []TopologyNode `json:"nodes"`
}

// TopologyNode is a node with its NICs.
type TopologyNode struct {
	Node            string                `json:"node"`
	Offload         v1alpha1.OffloadState `json:"offload,omitempty"`
	HardwarePercent *int                  `json:"hardwarePercent,omitempty"`
	// DPU is "ready" or what is wrong with the node's DPU; empty: it has none.
	DPU  string        `json:"dpu,omitempty"`
	NICs []TopologyNIC `json:"nics,omitempty"`
	// TrafficOmitted counts pods whose traffic is not listed: it is better than that of the others.
	TrafficOmitted int `json:"trafficOmitted,omitempty"`
	// OtherPods is the number of pods of the pod network that have no VF. It is not set if pods were not read.
	OtherPods *int `json:"otherPods,omitempty"`
}

// TopologyNIC is a NIC with the VFs that pods use.
type TopologyNIC struct {
	v1alpha1.Device
	Pods []TopologyVF `json:"pods,omitempty"`
}

// TopologyVF is a VF with its pod, and the pod's traffic if it was measured.
type TopologyVF struct {
	v1alpha1.UsedVF
	Traffic *v1alpha1.PodTraffic `json:"traffic,omitempty"`
}

// TopologyResources are what NewTopology reads.
func TopologyResources() []snapshot.Resource {
	return []snapshot.Resource{snapshot.Nodes, snapshot.NodeOffloads, snapshot.Pods, snapshot.Leases}
}

// NewTopology computes the tree of all nodes, or of one if a name is given.
func NewTopology(s *snapshot.Snapshot, only string) (*Topology, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	offloads := map[string]*v1alpha1.NodeOffload{}
	for i := range f.offloads {
		offloads[f.offloads[i].Name] = &f.offloads[i]
	}
	pods := map[string]int{}
	for _, p := range f.pods {
		if !p.Spec.HostNetwork && p.Status.Phase == "Running" {
			pods[p.Spec.NodeName]++
		}
	}
	t := &Topology{Header: header("Topology", s)}
	for _, n := range f.nodes {
		if only != "" && n.Name != only {
			continue
		}
		node := TopologyNode{Node: n.Name}
		if _, isHost := n.Labels[contract.DPUHostLabel]; isHost && s.Missing[snapshot.Leases] == "" {
			_, message := f.dpu(n.Name)
			node.DPU = cmp.Or(message, "ready")
		}
		if o := offloads[n.Name]; o != nil {
			node.add(o)
		}
		if _, missing := s.Missing[snapshot.Pods]; !missing {
			others := max(pods[n.Name]-node.withVF(), 0)
			node.OtherPods = &others
		}
		t.Nodes = append(t.Nodes, node)
	}
	if only != "" && len(t.Nodes) == 0 {
		return nil, ErrNotFound{"node " + only}
	}
	t.Next = "kubectl offload explain --worst 10"
	return t, nil
}

func (n *TopologyNode) add(o *v1alpha1.NodeOffload) {
	n.Offload, n.HardwarePercent, n.TrafficOmitted = o.Status.Offload, o.Status.HardwarePercent, o.Status.TrafficOmitted
	for _, d := range o.Status.Devices {
		nic := TopologyNIC{Device: d}
		for _, vf := range o.Status.UsedVFs {
			if vf.PF != d.Name {
				continue
			}
			used := TopologyVF{UsedVF: vf}
			if i := slices.IndexFunc(o.Status.Traffic, func(t v1alpha1.PodTraffic) bool { return t.Pod == vf.Pod }); i >= 0 {
				used.Traffic = &o.Status.Traffic[i]
			}
			nic.Pods = append(nic.Pods, used)
		}
		n.NICs = append(n.NICs, nic)
	}
}

// withVF counts the pods that have a VF.
func (n *TopologyNode) withVF() int {
	pods := map[string]bool{}
	for _, nic := range n.NICs {
		for _, vf := range nic.Pods {
			pods[vf.Pod] = true
		}
	}
	return len(pods)
}

// Text implements Answer.
func (t *Topology) Text(p *Page) {
	for _, n := range t.Nodes {
		p.Line("%s", n.title())
		lines := n.nics()
		if n.OtherPods != nil {
			lines = append(lines, plural(*n.OtherPods, "pod")+" on veths")
		}
		branches(p, "", lines)
	}
	p.Line("")
}

func (n TopologyNode) title() string {
	title := n.Node + "  offload " + cmp.Or(string(n.Offload), "unknown")
	if n.DPU != "" {
		title += "  DPU: " + n.DPU
	}
	if n.HardwarePercent != nil {
		title += fmt.Sprintf("  %d %% in hardware", *n.HardwarePercent)
	}
	return title
}

func (n TopologyNode) nics() (lines []string) {
	for _, nic := range n.NICs {
		lines = append(lines, nic.line())
	}
	return lines
}

// Of is the part of a node that a pod uses.
func (n TopologyNode) Of(pod string) TopologyNode {
	var nics []TopologyNIC
	for _, nic := range n.NICs {
		nic.Pods = slices.DeleteFunc(slices.Clone(nic.Pods), func(vf TopologyVF) bool { return vf.Pod != pod })
		if len(nic.Pods) > 0 {
			nics = append(nics, nic)
		}
	}
	n.NICs, n.OtherPods = nics, nil
	return n
}

// line is a NIC with its VFs: the further lines are indented by branches.
func (nic TopologyNIC) line() string {
	lines := []string{strings.Join(strings.Fields(fmt.Sprintf("NIC %s %s %s %s link %s", nic.Name, nic.Uplink, nic.Product, nic.Mode, nic.Link)), " ")}
	for _, vf := range nic.Pods {
		line := "VF " + vf.Device + "  pod/" + vf.Pod + "  " + cmp.Or(vf.Interface, "eth0")
		if port := vf.representor(); port != "" {
			line += "  " + port
		}
		if vf.Traffic != nil {
			line += fmt.Sprintf("  %d %% in hardware", vf.Traffic.Packets.Hardware)
			if len(vf.Traffic.Outside) > 0 {
				line += "  outside: " + because(vf.Traffic.Outside[0])
			}
		}
		lines = append(lines, line)
	}
	v := nic.VFs
	lines = append(lines, fmt.Sprintf("%s: %d used, %d reserved, %d free", plural(v.Total, "VF"), v.Used, v.Reserved, v.Free))
	return strings.Join(lines, "\n")
}

// representor is known from the traffic, too: agents of former versions do not say it of the VF.
func (vf TopologyVF) representor() string {
	if vf.Representor == "" && vf.Traffic != nil {
		return vf.Traffic.Port
	}
	return vf.Representor
}

// branches draws a tree of two levels; the lines of an entry after the first are below it.
func branches(p *Page, indent string, entries []string) {
	for i, entry := range entries {
		mark, below := "├─ ", "│  "
		if i == len(entries)-1 {
			mark, below = "└─ ", "   "
		}
		first, rest, more := strings.Cut(entry, "\n")
		p.Line("%s%s%s", indent, mark, first)
		if more {
			branches(p, indent+below, strings.Split(rest, "\n"))
		}
	}
}

// DOT is the tree in the language of Graphviz.
func (t *Topology) DOT() string {
	var b strings.Builder
	b.WriteString("digraph topology {\n  rankdir=LR; node [shape=box];\n")
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "  %q;\n", n.Node)
		for _, nic := range n.NICs {
			id := n.Node + " " + nic.Name
			fmt.Fprintf(&b, "  %q -> %q;\n", n.Node, id)
			for _, vf := range nic.Pods {
				fmt.Fprintf(&b, "  %q -> %q -> %q;\n", id, n.Node+" "+vf.Device, vf.Pod)
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}
