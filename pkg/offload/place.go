package offload

// Place is where packets of a flow are handled.
type Place string

// Hardware is the NIC. Partial is software with the NIC's help in matching. TC
// is the kernel's flower classifier, usually slower than the datapath. OVS is
// the datapath itself, in the kernel or in ovs-vswitchd.
const (
	Hardware Place = "hardware"
	Partial  Place = "partial"
	TC       Place = "tc"
	OVS      Place = "ovs"
)

// Places lists them all, the best first.
func Places() []Place { return []Place{Hardware, Partial, TC, OVS} }

// Reason is why a flow is not in hardware.
type Reason string

// The reasons, the one with the widest reach first: a flow has the first that
// applies. Only ReasonUnknown and ReasonRefused call for the NIC's documents.
const (
	ReasonOff      Reason = "offload-off"       // by setting, for the whole node
	ReasonSlowPath Reason = "slow-path"         // ovs-vswitchd or ovn-controller handles each packet
	ReasonPort     Reason = "port"              // packets come from a port without offload
	ReasonAction   Reason = "action"            // TC has no such action
	ReasonMatch    Reason = "match"             // TC has no such match
	ReasonOutput   Reason = "output"            // packets leave by a port without offload
	ReasonNew      Reason = "new-connection"    // conntrack has not confirmed it; normal
	ReasonEarlier  Reason = "earlier-stage"     // an earlier flow of the packets' way is only in OVS
	ReasonSoftware Reason = "software-by-order" // tc-policy is skip_hw
	ReasonRefused  Reason = "refused"           // the driver did not take it
	ReasonUnknown  Reason = "unknown"
)

// Reasons lists them all.
func Reasons() []Reason {
	return []Reason{
		ReasonOff, ReasonSlowPath, ReasonPort, ReasonAction, ReasonMatch, ReasonOutput,
		ReasonNew, ReasonEarlier, ReasonSoftware, ReasonRefused, ReasonUnknown,
	}
}

// Explain says for people what the reason means and what can be done.
func (r Reason) Explain() string {
	switch r {
	case ReasonOff:
		return "hardware offload is off in OVS on this node"
	case ReasonSlowPath:
		return "each packet is handled by ovs-vswitchd or ovn-controller, as ARP, ACL logs and sampling are"
	case ReasonPort:
		return "the packets come from a port that cannot offload"
	case ReasonAction:
		return "the flow has an action that the kernel's TC does not have"
	case ReasonMatch:
		return "the flow has a match that the kernel's TC does not have"
	case ReasonOutput:
		return "the packets leave by a port that cannot offload"
	case ReasonNew:
		return "connections begin in software and move when they are established"
	case ReasonEarlier:
		return "an earlier part of the same packets' way is not in hardware"
	case ReasonSoftware:
		return "tc-policy is skip_hw"
	case ReasonRefused:
		return "the NIC's driver did not take the flow; kubectl offload explain flow UFID@NODE --ask-driver asks the driver why"
	}
	return "nothing is known against it; the log of ovs-vswitchd may say more"
}

// Count is an amount of traffic. Packets and bytes are those of flows at which
// a way ends; flows are all.
type Count struct {
	Flows   int    `json:"flows"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Add adds an amount.
func (c *Count) Add(d Count) {
	c.Flows += d.Flows
	c.Packets += d.Packets
	c.Bytes += d.Bytes
}

// Share is traffic by place.
type Share struct {
	Hardware Count `json:"hardware"`
	Partial  Count `json:"partial,omitzero"`
	TC       Count `json:"tc,omitzero"`
	OVS      Count `json:"ovs,omitzero"`
}

// At gives the place's count, to read or to change.
func (s *Share) At(p Place) *Count {
	switch p {
	case Hardware:
		return &s.Hardware
	case Partial:
		return &s.Partial
	case TC:
		return &s.TC
	}
	return &s.OVS
}

// Add adds the traffic of each place.
func (s *Share) Add(d Share) {
	for _, p := range Places() {
		s.At(p).Add(*d.At(p))
	}
}

// Sum is the traffic of all places.
func (s *Share) Sum() Count {
	var sum Count
	for _, p := range Places() {
		sum.Add(*s.At(p))
	}
	return sum
}

// Ratio is the part of packets that hardware handles, 0 to 1; not ok without
// any packet.
func (s *Share) Ratio() (_ float64, ok bool) {
	sum := s.Sum().Packets
	if sum == 0 {
		return 0, false
	}
	return float64(s.Hardware.Packets) / float64(sum), true
}

// Cause is traffic outside hardware for one reason.
type Cause struct {
	Reason Reason `json:"reason"`
	// Detail is the action, match, port or limit meant, from a small set of words.
	Detail string `json:"detail,omitempty"`
	Count
}
