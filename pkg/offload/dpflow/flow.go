// Package dpflow reads the flows of a datapath as ovs-vswitchd prints them for
// dpctl/dump-flows, with -m (all attributes, masks) or without.
//
//	ufid:<uuid>, <match>,<match>, packets:2, bytes:236, used:1.03s, offloaded:yes, dp:tc, actions:<action>,<action>
//
// Matches and actions are terms: a name, or a name with arguments in
// parentheses that may nest. The order of terms differs between OVS releases
// (3.1 starts with skb_priority, 3.5 with recirc_id), new attributes come up, and
// none of that matters here: what is not known is kept as a term or ignored. A
// line that is not balanced is an error, never a guess.
//
// It is a package of its own because tracing reads the same text for another
// purpose. Data flow: unixctl.Client.Lines -> Parse -> offload.Classify.
package dpflow

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Flow is one line of a dump. Its strings share the line's memory.
type Flow struct {
	// UFID names the flow for as long as it lives, wherever it is; "" without -m.
	UFID string
	// InPort is a name (--names) or the datapath's number of the port.
	InPort string
	Recirc uint32
	CT     CTState
	// Match has the other terms, without those whose mask is all zeros.
	Match   []Term
	Packets uint64
	Bytes   uint64 // without the Ethernet header where TC counted them
	// Used is how long ago a packet came, negative for never.
	Used    time.Duration
	Layer   Layer
	Offload Offload
	Actions []Term
	// Key is all that the dump has of the flow's match, for commands that take a flow. Parse leaves it empty: see KeyOf.
	Key string
}

// Layer is which part of the machine has the flow.
type Layer string

// The layers that OVS names; LayerUntold is a dump without -m.
const (
	LayerUntold Layer = ""
	LayerOVS    Layer = "ovs"
	LayerTC     Layer = "tc"
	LayerDPDK   Layer = "dpdk"
)

// Offload is what the NIC does of the flow.
type Offload string

// Partial means that the NIC matches and software acts.
const (
	NotOffloaded Offload = ""
	Partial      Offload = "partial"
	Offloaded    Offload = "yes"
)

// Term is name or name(args), a match or an action.
type Term struct {
	Name string
	// Args is the text between the parentheses.
	Args string
}

// CTState is what a flow matches of conntrack's state.
type CTState struct{ Value, Mask uint32 }

// String gives the form VALUE/MASK that ovs-vswitchd reads.
func (s CTState) String() string {
	if s.Mask == ^uint32(0) {
		return fmt.Sprintf("%#x", s.Value)
	}
	return fmt.Sprintf("%#x/%#x", s.Value, s.Mask)
}

// The bits of CTState as the datapaths number them.
const (
	CTNew         = 0x01
	CTEstablished = 0x02
	CTReply       = 0x08
	CTInvalid     = 0x10
	CTTracked     = 0x20
)

// Wants says that only packets with the bit set match.
func (s CTState) Wants(bit uint32) bool { return s.Mask&bit != 0 && s.Value&bit != 0 }

// maxDepth is twice what the kernel accepts of nested actions.
const maxDepth = 32

// containers are the actions that hold actions; the others' arguments do not
// look like any.
func container(name string) bool {
	switch name {
	case "clone", "sample", "actions", "check_pkt_len", "gt", "le":
		return true
	}
	return false
}

// AllActions gives the actions and those in them, the outer ones first.
func (f *Flow) AllActions() iter.Seq[Term] {
	return func(yield func(Term) bool) { walk(f.Actions, maxDepth, yield) }
}

func walk(list []Term, depth int, yield func(Term) bool) bool {
	for _, t := range list {
		if !yield(t) {
			return false
		}
		if depth == 0 || !container(t.Name) {
			continue
		}
		inner, err := terms(t.Args)
		if err == nil && !walk(inner, depth-1, yield) {
			return false
		}
	}
	return true
}

// Outputs gives the ports that packets leave by, once for each output.
func (f *Flow) Outputs() []string {
	var out []string
	for t := range f.AllActions() {
		if t.Args == "" && !verb(t.Name) {
			out = append(out, t.Name)
		}
	}
	return out
}

// verb tells actions without arguments from ports.
func verb(name string) bool {
	switch name {
	case "", "drop", "ct", "ct_clear", "pop_vlan", "pop_eth", "pop_nsh":
		return true
	}
	return container(name) || strings.ContainsAny(name, "=:")
}

// Next gives the recirculation ids that packets of the flow go on with; none
// means that their way ends here.
func (f *Flow) Next() []uint32 {
	var out []uint32
	for t := range f.AllActions() {
		if t.Name != "recirc" {
			continue
		}
		if id, err := strconv.ParseUint(t.Args, 0, 32); err == nil {
			out = append(out, uint32(id))
		}
	}
	return out
}

// Arg gives an argument of the form name=value or name=value/mask, or name
// alone; of a whole-value term, the empty name gives its value.
func (t Term) Arg(name string) (value, mask string, ok bool) {
	if name == "" {
		value, mask, _ = strings.Cut(t.Args, "/")
		return value, mask, true
	}
	for part := range split(t.Args) {
		key, rest, _ := strings.Cut(part, "=")
		if key == name || strings.HasPrefix(key, name+"(") {
			value, mask, _ = strings.Cut(rest, "/")
			return value, mask, true
		}
	}
	return "", "", false
}

// Wild says that the term is printed but matches anything.
func (t Term) Wild() bool {
	if t.Args == "" {
		return false
	}
	for part := range split(t.Args) {
		_, mask, ok := strings.Cut(part, "/")
		if !ok || strings.Trim(mask, "0x:.") != "" {
			return false
		}
	}
	return true
}
