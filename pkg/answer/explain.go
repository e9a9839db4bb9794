package answer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// PodExplained says whether a pod's traffic is in hardware, and if not why.
type PodExplained struct {
	Header
	Pod   string `json:"pod"`
	Node  string `json:"node,omitempty"`
	Phase string `json:"phase"`
	PodNetwork
	PodDevices
	// Traffic is that of each of its representors, as last measured by the node's agent.
	Traffic []v1alpha1.PodTraffic `json:"traffic,omitempty"`
	// Unlisted: the NodeOffload lists the pods with the worst share of its node, and this is none of them.
	Unlisted bool `json:"unlisted,omitempty"`
	// Reasons explain the traffic outside hardware: the first is to be removed first.
	Reasons []Reason `json:"reasons,omitempty"`
	PodStreams
	Problems []Problem `json:"problems,omitempty"`
}

// PodNetwork is how a pod is on the network.
type PodNetwork struct {
	// Waits says why the pod has no address on the network yet.
	Waits string `json:"waits,omitempty"`
	// HostNetwork: the pod has the node's network.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Networks are the pod's interfaces as the controller wrote them.
	Networks []PodInterface `json:"networks,omitempty"`
}

// PodDevices are the VFs that a pod uses, and their NICs.
type PodDevices struct {
	VFs  []v1alpha1.UsedVF `json:"vfs,omitempty"`
	NICs []PodNIC          `json:"nics,omitempty"`
	// NoNIC: its node has no NIC that can offload.
	NoNIC bool `json:"noNIC,omitempty"`
}

// PodNIC is what a user of one pod sees of a NIC: other pods use it, too.
type PodNIC struct {
	Name    string `json:"name"`
	Uplink  string `json:"uplink,omitempty"`
	Product string `json:"product,omitempty"`
	Driver  string `json:"driver,omitempty"`
	Mode    string `json:"mode"`
	Link    string `json:"link,omitempty"`
	// Limit says why this kind of NIC cannot offload OVN's flows.
	Limit string `json:"limit,omitempty"`
}

// PodInterface is one network of a pod.
type PodInterface struct {
	Network   string   `json:"network"`
	Addresses []string `json:"addresses,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	// Absent: the pod asks for the network, and has no interface on it.
	Absent bool `json:"absent,omitempty"`
}

// Reason is why traffic is outside hardware, and what can be done.
type Reason struct {
	Reason  string `json:"reason"`
	Detail  string `json:"detail,omitempty"`
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
}

// ExplainPodResources are what ExplainPod reads.
func ExplainPodResources() []snapshot.Resource {
	return []snapshot.Resource{snapshot.Pods, snapshot.Nodes, snapshot.NodeOffloads, snapshot.Events}
}

// ErrNotFound is an object that the cluster does not have.
type ErrNotFound struct{ Object string }

// Error implements error.
func (e ErrNotFound) Error() string { return "there is no " + e.Object }

// ExplainPod explains the pod "namespace/name".
func ExplainPod(s *snapshot.Snapshot, name string) (*PodExplained, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.pods, func(p corev1.Pod) bool { return p.Namespace+"/"+p.Name == name })
	if i < 0 {
		return nil, ErrNotFound{"pod " + name}
	}
	pod := f.pods[i]
	e := &PodExplained{
		Header: header("PodExplained", s), Pod: name, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase),
		PodNetwork: PodNetwork{HostNetwork: pod.Spec.HostNetwork, Networks: interfacesOf(&pod)},
	}
	isOf := func(p Problem) bool { return p.Objects[0] == "pod/"+name || p.Objects[0] == "node/"+e.Node }
	events := slices.DeleteFunc(f.eventProblems(), func(p Problem) bool { return p.Objects[0] != "pod/"+name })
	e.Problems = e.networkProblems(f, events)
	e.find(f)
	for _, p := range slices.Concat(f.trafficProblems(), f.eventProblems(), f.nodeProblems(), f.offloadProblems()) {
		if isOf(p) {
			e.Problems = append(e.Problems, p)
		}
	}
	e.Problems = group(e.Problems)
	e.Code = verdict(e.Code, e.Problems)
	switch {
	case len(e.Reasons) > 0:
		e.Next = "kubectl offload help OutsideHardware"
	case len(e.Problems) > 0:
		e.Next = "kubectl offload help " + e.Problems[0].See
	case e.Node != "":
		e.Next = "kubectl offload explain node/" + e.Node
	default: // it waits for a node
		e.Next = "kubectl offload status"
	}
	return e, nil
}

// find reads the pod's VFs and traffic from the NodeOffload of its node.
func (e *PodExplained) find(f *facts) {
	i := slices.IndexFunc(f.offloads, func(n v1alpha1.NodeOffload) bool { return n.Name == e.Node })
	if i < 0 || e.HostNetwork {
		return
	}
	node := f.offloads[i]
	for _, vf := range node.Status.UsedVFs {
		if vf.Pod == e.Pod {
			e.VFs = append(e.VFs, vf)
		}
	}
	for _, nic := range node.Status.Devices {
		if slices.ContainsFunc(e.VFs, func(vf v1alpha1.UsedVF) bool { return vf.PF == nic.Name }) {
			e.NICs = append(e.NICs, PodNIC{nic.Name, nic.Uplink, nic.Product, nic.Driver, nic.Mode, nic.Link, nic.Limit})
		}
	}
	for _, t := range node.Status.Traffic {
		if t.Pod == e.Pod {
			e.Traffic = append(e.Traffic, t)
		}
	}
	e.NoNIC = node.Status.DeviceCount == 0
	e.Unlisted = len(e.VFs) > 0 && len(e.Traffic) == 0 && node.Status.TrafficOmitted > 0
	e.explain()
	if len(e.VFs) == 0 && node.Status.UsedVFsOmitted == 0 && len(e.Traffic) == 0 && e.Waits == "" {
		e.Reasons = append(e.Reasons, onVeth(e.NoNIC))
	}
}

// onVeth is the reason of a pod without a VF, on a node with or without a NIC.
func onVeth(noNIC bool) Reason {
	meaning, action := Meaning(noVF)
	if noNIC {
		meaning, action = "its node has no NIC that can offload", "nothing, or a node selector for ovn-offload.io/vfs=true"
	}
	return Reason{noVF, "", meaning, action}
}

// explain gives each reason once.
func (e *PodExplained) explain() {
	seen := map[v1alpha1.OutsideHardware]bool{}
	for _, t := range e.Traffic {
		for _, o := range t.Outside {
			if !seen[o] {
				seen[o] = true
				meaning, action := meaningOf(o.Reason, o.Detail)
				e.Reasons = append(e.Reasons, Reason{o.Reason, o.Detail, meaning, action})
			}
		}
	}
}

// noVF is a reason of the plugin: the agent reports none for pods without a VF.
const noVF = "no-vf"

// meaningOf is Meaning, with what can be done about a detail.
func meaningOf(reason, detail string) (meaning, action string) {
	meaning, action = Meaning(reason)
	switch {
	case reason == string(offload.ReasonAction) && strings.HasPrefix(detail, "hash"):
		action = "where a Service chooses the endpoint, reach the endpoints without it, as by a headless Service"
	case strings.HasPrefix(detail, "hw-tc-offload "):
		meaning, action = "the representor takes no rules for the NIC", "an OffloadPolicy for the NIC; by hand: ethtool -K <representor> hw-tc-offload on"
	}
	return meaning, action
}

// Meaning explains a reason for traffic outside hardware, and says what can be done. The texts are those of
// docs/offload-status.md.
func Meaning(reason string) (meaning, action string) {
	switch reason {
	case noVF:
		return "the pod has no VF: its traffic passes a veth", "request a VF in the pod's resources (docs/vf.md)"
	case "offload-off":
		return "other_config:hw-offload is not set, or was set after ovs-vswitchd had started", "an OffloadPolicy for the NIC; by hand: set it and restart ovs-vswitchd"
	case "slow-path":
		return "ovs-vswitchd or ovn-controller handles each packet: ARP, ND, DHCP, ACL logging, sFlow, IPFIX",
			"normal for a few packets; else turn logging or sampling off"
	case "port":
		return "the packets come from a veth or an internal port, or hw-tc-offload of the representor is off",
			"give the pod a VF; ethtool -K <representor> hw-tc-offload on"
	case "action":
		return "TC has no such action", "the detail names it"
	case "match":
		return "TC has no such match", "the detail names it"
	case "output":
		return "the packets leave by a port without offload: to a veth pod, to the host", "give the other end a VF"
	case reasonNew:
		return "NICs take connections once they are established", "nothing"
	case "earlier-stage":
		return "an earlier flow of the same packets is not in the NIC, so this one cannot be", "see the earlier one's reason"
	case "software-by-order":
		return "tc-policy=skip_hw", "remove it"
	case "refused":
		return "TC has the flow and the driver did not take it; with skip_sw, OVS has it",
			"kubectl offload explain flow UFID@NODE --ask-driver has the driver's text; the detail names a known limit of the NIC"
	}
	return "no reason is known", "the log of ovs-vswitchd at level debug of netdev_offload_tc and dpif_netlink"
}

// podNetworks are those of a pod's annotation by their keys. One that cannot be read has none: what the agents say of it is an
// Event.
func podNetworks(annotation string) map[string]contract.PodNetwork {
	var networks map[string]contract.PodNetwork
	if json.Unmarshal([]byte(annotation), &networks) != nil {
		return nil // written by another network, or half of it
	}
	return networks
}

// Text implements Answer.
func (e *PodExplained) Text(p *Page) {
	p.Line("pod/%s  %s", e.Pod, cmp.Or(strings.ToLower(e.Phase), "unknown"))
	if e.Waits != "" {
		p.Line("%s", e.Waits)
	}
	rows := [][]string{{"node", e.Node}}
	if e.HostNetwork {
		rows = append(rows, []string{"network", "the node's own (hostNetwork)"})
	}
	for _, n := range e.Networks {
		rows = append(rows, append([]string{"network"}, n.row()...))
	}
	for _, vf := range e.VFs {
		row := []string{"VF", vf.Device, "of " + vf.PF, cmp.Or(vf.Interface, "eth0"), vf.Resource}
		if vf.Representor != "" {
			row = append(row, "representor "+vf.Representor)
		}
		rows = append(rows, row)
	}
	for _, nic := range e.NICs {
		rows = append(rows, []string{"NIC", nic.Name, nic.Product, nic.Uplink, nic.Mode + ", link " + cmp.Or(nic.Link, "unknown")})
	}
	p.Table(rows)
	for _, nic := range e.NICs {
		if nic.Limit != "" {
			p.Line("%s cannot offload flows of OVN: %s", nic.Name, nic.Limit)
		}
	}
	for _, t := range e.Traffic {
		p.Line("%s: %d %% of the packets in hardware, %d %% in tc, %d %% in ovs, measured each minute", t.Port, t.Packets.Hardware, t.Packets.TC, t.Packets.OVS)
	}
	if e.Unlisted {
		p.Line("its traffic: better than that of the pods that the NodeOffload of %s lists", e.Node)
	}
	for _, r := range e.Reasons {
		p.Line("")
		p.Line("outside because of %s", because(v1alpha1.OutsideHardware{Reason: r.Reason, Detail: r.Detail}))
		p.Line("  means  %s", r.Meaning)
		p.Line("  do     %s", r.Action)
	}
	e.printStreamsOf(p)
	if len(e.Problems) > 0 {
		p.Line("")
		printProblems(p, e.Problems, e.Taken)
	}
	p.Line("")
}

// NodeExplained says what a node can offload, and what keeps it from that.
type NodeExplained struct {
	Header
	Node   string                      `json:"node"`
	Status *v1alpha1.NodeOffloadStatus `json:"status,omitempty"`
	// Meaning says what the settings of offload mean for packets.
	Meaning  string    `json:"meaning,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
}

// ExplainNode explains a node.
func ExplainNode(s *snapshot.Snapshot, name string) (*NodeExplained, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(f.nodes, func(n corev1.Node) bool { return n.Name == name }) {
		return nil, ErrNotFound{"node " + name}
	}
	e := &NodeExplained{Header: header("NodeExplained", s), Node: name}
	if i := slices.IndexFunc(f.offloads, func(n v1alpha1.NodeOffload) bool { return n.Name == name }); i >= 0 {
		e.Status = &f.offloads[i].Status
		e.Meaning = meaningOfState(e.Status)
	} else {
		e.Problems = append(e.Problems, Problem{
			Severity: SeverityDegraded, Objects: []string{"node/" + name}, See: "agent-not-ready", Message: "its agent has not written a NodeOffload yet",
		})
	}
	for _, p := range slices.Concat(f.nodeProblems(), f.offloadProblems(), freeProblems(f.offloads), f.eventProblems()) {
		if p.Objects[0] == "node/"+name {
			e.Problems = append(e.Problems, p)
		}
	}
	e.Problems = group(e.Problems)
	e.Code, e.Next = verdict(e.Code, e.Problems), "kubectl offload topology node/"+name
	if len(e.Problems) > 0 {
		e.Next = "kubectl offload help " + e.Problems[0].See
	}
	return e, nil
}

// Text implements Answer.
func (e *NodeExplained) Text(p *Page) {
	p.Line("node/%s", e.Node)
	if s := e.Status; s != nil {
		rows := [][]string{{"offload", strings.TrimSuffix(string(s.Offload)+": "+s.Reason, ": ")}}
		if e.Meaning != "" {
			rows = append(rows, []string{"means", e.Meaning})
		}
		for _, program := range [][2]string{{"agent", s.Versions.Agent}, {"openvswitch", s.Versions.OpenVSwitch}, {"ovn", s.Versions.OVN}, {"kernel", s.Versions.Kernel}} {
			if program[1] != "" {
				rows = append(rows, program[:])
			}
		}
		for _, d := range s.Devices {
			rows = append(rows, []string{"NIC", fmt.Sprintf("%s %s %s: %s, link %s, VFs %d: %d used, %d reserved, %d free",
				d.Name, d.Uplink, d.Product, d.Mode, cmp.Or(d.Link, "unknown"), d.VFs.Total, d.VFs.Used, d.VFs.Reserved, d.VFs.Free)})
			if d.Limit != "" {
				rows = append(rows, []string{"limit", d.Name + " cannot offload flows of OVN: " + d.Limit})
			}
		}
		for _, r := range s.Policies {
			rows = append(rows, []string{"policy", fmt.Sprintf("%s %s %s %s", r.Policy, r.Device, r.State, r.Message)})
		}
		if s.HardwarePercent != nil {
			rows = append(rows, []string{"traffic", fmt.Sprintf("%d %% of the packets of pods with a VF in hardware", *s.HardwarePercent)})
		}
		for _, sum := range s.Outside {
			rows = append(rows, []string{"outside", outsideOf(sum)})
		}
		p.Table(rows)
	}
	p.Line("")
	printProblems(p, e.Problems, e.Taken)
	p.Line("")
}

// outsideOf says how much of a node's traffic is outside hardware for a reason. Shares are in steps of five, and the first step is
// anything below the second.
func outsideOf(sum v1alpha1.ReasonSum) string {
	share := fmt.Sprintf("%d %%", sum.Percent)
	if sum.Percent == 5 {
		share = "7 % or less"
	}
	return fmt.Sprintf("%s of them because of %s, the main reason for %s", share, sum.Reason, plural(sum.Pods, "pod"))
}
