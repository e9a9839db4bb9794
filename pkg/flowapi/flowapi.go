// Package flowapi is the agents' HTTP API of flows: its JSON types, a handler and a client.
//
// Place in the data flow:
//
//	nodeflows.Source -> Handler of the agent -> Client of the relay or of kubectl offload
//	the relay, for callers -> Handler of the relay -> Client of kubectl offload
//
// It is a package of its own because both ends of the API, which may be of neighbouring releases, have to agree. Fields
// are only added. A client ignores fields that it does not know.
package flowapi

import (
	"context"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Source is what the API is served from.
type Source interface {
	// Summary is the newest that is known. With fresh it is at most MinPeriod old.
	Summary(ctx context.Context, fresh bool) (*Summary, error)
	// Flows are at most MinPeriod old.
	Flows(ctx context.Context, q Query) (*Flows, error)
	// Why asks ovs-vswitchd for the rules of one flow. ErrNoFlow: there is no such flow.
	Why(ctx context.Context, id string) (*Why, error)
}

// MinPeriod is the least time between two dumps of the flows, whatever the number of callers.
const MinPeriod = 2 * time.Second

// RateSpan is the longest time between two dumps from which rates are computed.
const RateSpan = time.Minute

// Summary is where a node's traffic is handled.
type Summary struct {
	Node string `json:"node"`
	// Taken is the moment of the dump; zero while there is none: a node without a NIC in switchdev mode dumps its flows
	// only when a fresh summary is asked for.
	Taken time.Time `json:"taken,omitzero"`
	// Seconds is the time in which the packets below were counted; 0: the life of each flow. Packets that are counted since
	// CountedSince are none of these.
	Seconds float64 `json:"seconds"`
	// Offload says whether the switch may offload.
	Offload offload.Settings `json:"offload"`
	Total   offload.Share    `json:"total"`
	// Outside is the traffic that is not in hardware, the most packets first.
	Outside []offload.Cause `json:"outside,omitempty"`
	// Pods are those of the node that have a port, by namespace and name.
	Pods []PodSummary `json:"pods"`
	// Malformed lines of the dump were not understood and are not counted.
	Malformed int `json:"malformed,omitempty"`
	// CountedSince is when the agent began to compare each dump with the one before it, flow by flow; zero: it has not, or is of a
	// former version. What it has found since then is counted, without flows, by the place where a flow was in the later dump. It
	// never goes back: flows that end leave their packets in it. Two summaries with the same CountedSince differ by the traffic
	// between them.
	CountedSince   time.Time       `json:"countedSince,omitzero"`
	Counted        offload.Share   `json:"counted,omitzero"`
	CountedOutside []offload.Cause `json:"countedOutside,omitempty"`
}

// PodSummary is the traffic of one pod, to it and from it.
type PodSummary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ports are the interfaces of Open vSwitch that serve the pod.
	Ports []string `json:"ports"`
	// VF is true if a port is the representor of a function.
	VF      bool          `json:"vf,omitempty"`
	Traffic offload.Share `json:"traffic"`
	// Reason is why most of the traffic outside hardware is there.
	Reason offload.Reason `json:"reason,omitempty"`
	Detail string         `json:"detail,omitempty"`
	// Drops are packets of the pod that no port gets. They are counted in Traffic, too.
	Drops offload.Count `json:"drops,omitzero"`
	// Counted is the traffic since CountedSince, or since the pod has a port, and CountedDrops its part that no port got.
	Counted      offload.Share `json:"counted,omitzero"`
	CountedDrops offload.Count `json:"countedDrops,omitzero"`
}

// Query chooses flows. The zero value chooses those of all pods.
type Query struct {
	Namespace, Pod string
	// All chooses flows too that are of no pod.
	All bool
	// Limit bounds the answer; 0: DefaultLimit. The flows with the most packets are given.
	Limit int
	// Why asks for the rules of each flow, too.
	Why bool
	// TC asks for the rule of TC of each flow, with its Why.
	TC bool
	// Counters asks for those of the pods' representors, too.
	Counters bool
	// NoFlows asks for no flows: nothing is dumped. An agent of a former version gives flows nevertheless.
	NoFlows bool
	// IDs, separated by commas, chooses the flows with these UFIDs, of any pod or none. The agent waits for its next dump, at most
	// MinPeriod; where it may not dump again by then, the flows are of the last dump. Their rules are asked for anew.
	IDs string
}

// MaxIDs bounds the UFIDs of a Query.
const MaxIDs = 200

// NoRules is the Problem of all flows of a node whose Open vSwitch cannot be asked.
const NoRules = "Open vSwitch before 3.4 does not tell the rules of a flow"

// DefaultLimit and MaxLimit bound the flows of one answer.
const (
	DefaultLimit = 1000
	MaxLimit     = 20000
)

// Withheld is in an answer of the relay in place of what the caller may not see.
const Withheld = "withheld"

// DeniedNodes is how such an answer says that the caller may not see nodes.
const DeniedNodes = "you may not get nodeoffloads.ovn-offload.io"

// NodesPath is where a relay serves the API of the nodes' agents to callers, as far as they may see what it gives.
const NodesPath = "/api/v1/nodes"

// Nodes are those whose agents a caller may ask a relay about.
type Nodes struct {
	Nodes []string `json:"nodes"`
	// Missing are nodes with flows that no agent serves.
	Missing []string `json:"missing,omitempty"`
}

// Flows is the answer to a Query.
type Flows struct {
	Node  string    `json:"node"`
	Taken time.Time `json:"taken"`
	// Matched is how many flows the query chose. Without more than the limit all of them are in Flows.
	Matched int `json:"matched"`
	// Unseen are flows beyond MaxLimit, which the agent did not keep.
	Unseen int    `json:"unseen,omitempty"`
	Flows  []Flow `json:"flows"`
	// Ports are the representors of the pods of the query, if their counters were asked for. They are read after a dump.
	Ports []Port `json:"ports,omitempty"`
	// Missing is what a relay could not read, such as the names of the flows.
	Missing []string `json:"missing,omitempty"`
}

// Port is a representor with its pod, and what beside the flows says whether the pod's packets are in hardware.
type Port struct {
	End
	// Hardware are packets from the pod that rules of TC sent on in hardware, as long as these rules are there.
	Hardware uint64 `json:"hardware"`
	// Software are packets that passed the representor, in both directions. CPUHit: the driver counts them apart from those
	// in hardware.
	Software uint64 `json:"software"`
	CPUHit   bool   `json:"cpuHit,omitempty"`
	// Problem says why the counters are not known.
	Problem string `json:"problem,omitempty"`
}

// Flow is one flow of the datapath, which often is a part of a packet's way: conntrack and others end a flow and recirculate
// the packet.
type Flow struct {
	// ID is the flow's UFID.
	ID string `json:"id"`
	// Node is where the flow is; a relay sets it.
	Node string `json:"node,omitempty"`
	From End    `json:"from"`
	// To are the ports that packets leave by. It is empty where the packet is recirculated or dropped.
	To []End `json:"to,omitempty"`
	Packet
	Way
	Placed
	Traffic
	// Match and Actions are the datapath's.
	Match   string `json:"match"`
	Actions string `json:"actions"`
	// Why is there if it was asked for.
	Why *Why `json:"why,omitempty"`
	// DecidedBy are the Kubernetes objects that decided, as owners: NetworkPolicy/shop/deny. The agent does not know
	// them; who knows the databases of OVN adds them.
	DecidedBy []string `json:"decidedBy,omitempty"`
}

// Packet is what a flow matches of a packet.
type Packet struct {
	// Protocol is tcp, udp, sctp, icmp, icmp6, arp, or the numbers of others; empty: any.
	Protocol string `json:"protocol,omitempty"`
	// Source and Target are addresses or networks, their ports numbers or NUMBER/MASK; empty: any.
	Source     string `json:"source,omitempty"`
	SourcePort string `json:"sourcePort,omitempty"`
	Target     string `json:"target,omitempty"`
	TargetPort string `json:"targetPort,omitempty"`
	// Tunnel is the other node's address of a packet that comes from a tunnel or goes into one.
	Tunnel string `json:"tunnel,omitempty"`
	// Direction is that of conntrack, Original or Reply; empty: any.
	Direction string `json:"direction,omitempty"`
}

// Original packets go from the end that began a connection to the other one, and Reply packets back.
const (
	Original = "original"
	Reply    = "reply"
)

// Way says where in a packet's way a flow is.
type Way struct {
	// Recirculation is the number by which earlier flows hand packets on to this one; 0: they come from the port.
	Recirculation uint32 `json:"recirculation,omitempty"`
	// Next are the numbers of the flows that packets go on with.
	Next []uint32 `json:"next,omitempty"`
	// Drops: the packets go nowhere.
	Drops bool `json:"drops,omitempty"`
	// For is the pod whose MAC address the dropped packets have.
	For *End `json:"for,omitempty"`
	// Stale: no flow hands packets on to this one any more, because the rules have changed, or it has ended while it was read. What it
	// says is of the past; the former ends after ten seconds without packets.
	Stale bool `json:"stale,omitempty"`
}

// Placed is where the packets are handled, and if not in hardware why.
type Placed = offload.Placement

// Traffic is what a flow has carried.
type Traffic struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// PacketsPerSecond is known from the second dump on, within RateSpan.
	PacketsPerSecond *float64 `json:"packetsPerSecond,omitempty"`
	// IdleSeconds is how long ago the last packet came; absent: none came.
	IdleSeconds *float64 `json:"idleSeconds,omitempty"`
}

// End is a port of the switch, with the pod that it serves.
type End struct {
	Port      string `json:"port"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	// Network is that of the port, by the key of the pod's annotation k8s.ovn.org/pod-networks: "default", or a
	// NetworkAttachmentDefinition. Empty: the agent is of a former version.
	Network string `json:"network,omitempty"`
}

// Why is what a flow was made from, and what keeps it out of hardware.
type Why struct {
	ID string `json:"id"`
	// Obstacles are in the order in which they have to go.
	Obstacles []offload.Obstacle `json:"obstacles,omitempty"`

	Rules []Rule `json:"rules,omitempty"`
	// TC is there if it was asked for and the flow is not in Open vSwitch alone.
	TC *TCRule `json:"tc,omitempty"`
	// Reconstructed: the rules are those by which the flow would be made now. ovs-vswitchd does not know them of a flow that had
	// a single packet, or that has ended.
	Reconstructed bool `json:"reconstructed,omitempty"`
	// Problem says why the rules are not known.
	Problem string `json:"problem,omitempty"`
}

// TCRule is the rule of TC that a flow is, as "tc -s filter show" has it.
type TCRule struct {
	// Device has the rule, and Chain is the identifier of what the packets have met before (recirc_id of the flow).
	Device   string `json:"device,omitempty"`
	Chain    uint32 `json:"chain,omitempty"`
	Priority uint16 `json:"priority,omitempty"`
	Handle   uint32 `json:"handle,omitempty"`
	// InHardware: the driver has taken the rule (in_hw).
	InHardware bool `json:"inHardware,omitempty"`
	// Packets are those that the driver has counted.
	Packets uint64 `json:"hardwarePackets"`
	// Problem says why the rule is not known.
	Problem string `json:"problem,omitempty"`
}

// Rule is a rule of OpenFlow that the flow was made from, in the order in which a packet meets them.
type Rule struct {
	// Cookie is that of the rule. Those of OVN's rules are the first 32 bits of the UUID of a Logical_Flow or of another
	// row of the Southbound.
	Cookie uint64 `json:"cookie"`
	Table  int    `json:"table"`
	// Rule is the text of ovs-vswitchd: priority, match and actions.
	Rule string `json:"rule"`
	// Name is set with what is known of the cookie.
	Name *Name `json:"name,omitempty"`
}

// Name says where a rule comes from.
type Name struct {
	// Stage is that of the logical flow, such as ls_in_acl_eval, or the name of a flow of the gateway bridge.
	Stage string `json:"stage,omitempty"`
	// Row is the table of the Northbound whose row the logical flow was made from, such as ACL.
	Row string `json:"row,omitempty"`
	// What was decided, such as "ingress policy: drop".
	What string `json:"what,omitempty"`
	// Rule is that of the policy, as a path of its spec: ingress[1].
	Rule string `json:"rule,omitempty"`
	// Objects are the Kubernetes objects that own the row. Several: rows whose UUIDs begin with the same 32 bits.
	Objects []string `json:"objects,omitempty"`
	// Problem says why there is no name.
	Problem string `json:"problem,omitempty"`
}

// Asked is what the NIC's driver says about a flow that it refused, whose rule of TC the agent's command offers it once more.
type Asked struct {
	ID string `json:"id"`
	// Port and Priority are where the rule was offered, and deleted.
	Port     string `json:"port,omitempty"`
	Priority uint16 `json:"priority,omitempty"`
	// Taken: the driver took the rule this time.
	Taken bool `json:"taken,omitempty"`
	// Text is the driver's, as the kernel gives it. Error is the kernel's name of the error, which a link of tunnels does not have.
	// Not taken, either may be absent.
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
	// Problem says why the driver was not asked.
	Problem string `json:"problem,omitempty"`
}
