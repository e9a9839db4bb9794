package offload

import (
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

// why goes from what concerns the node over the port to the single flow, so that
// the first reason found is the one to remove first.
func (c *classifier) why(f *dpflow.Flow, e End) (Reason, string) {
	if !c.settings.HWOffload {
		return ReasonOff, "hw-offload is not set"
	}
	if c.settings.RestartDue {
		return ReasonOff, "ovs-vswitchd must be restarted"
	}
	if what := slowPath(f); what != "" {
		return ReasonSlowPath, what
	}
	if what := c.portLacks(f.InPort); what != "" {
		return ReasonPort, what
	}
	if what := badAction(f); what != "" {
		return ReasonAction, what
	}
	if what := badMatch(f); what != "" {
		return ReasonMatch, what
	}
	if c.settings.NoRecirculation && len(f.Next()) > 0 {
		return ReasonAction, recirculation
	}
	for _, name := range e.To {
		if what := c.portLacks(name); what != "" {
			return ReasonOutput, what
		}
	}
	if f.CT.Wants(dpflow.CTNew) {
		return ReasonNew, ""
	}
	return c.refusal(f, e)
}

// recirculation is the detail of ReasonAction for an action that TC has in other kernels.
const recirculation = "recirc"

// refusal reads the layer: what TC has was offered to the driver. With skip_sw
// TC keeps nothing that the driver refused, so it is back in OVS.
func (c *classifier) refusal(f *dpflow.Flow, e End) (Reason, string) {
	switch {
	case e.Place == TC && c.settings.Policy == PolicySkipHW:
		return ReasonSoftware, ""
	case e.Place == TC || e.Place == OVS && c.settings.Policy == PolicySkipSW && f.Recirc == 0:
		return ReasonRefused, c.limit(f.InPort)
	}
	return ReasonUnknown, ""
}

// portLacks assumes that a port in no table can be offloaded, such as the kernel datapath's link for all tunnels of a
// kind.
func (c *classifier) portLacks(name string) string {
	t, ok := c.ports[name]
	if !ok {
		return ""
	}
	return t.port.lacks()
}

func (c *classifier) limit(name string) string {
	if t, ok := c.ports[name]; ok {
		return t.port.Limit
	}
	return ""
}

// slowPath names the part of ovs-vswitchd that gets the packets.
func slowPath(f *dpflow.Flow) string {
	for a := range f.AllActions() {
		if a.Name != "userspace" {
			continue
		}
		for _, known := range []string{"controller", "slow_path", "sFlow", "flow_sample", "ipfix"} {
			if _, _, ok := a.Arg(known); ok {
				return known
			}
		}
		return "userspace"
	}
	return ""
}

// badAction names an action that OVS has no TC action for: all but those listed.
// A ct is good or bad by its options, a set by the header that it changes.
func badAction(f *dpflow.Flow) string {
	for a := range f.AllActions() {
		switch a.Name {
		case "pop_eth", "pop_nsh":
			return a.Name
		case "ct":
			for _, option := range []string{"helper", "timeout"} {
				if _, _, ok := a.Arg(option); ok {
					return "ct " + option
				}
			}
		case "set":
			if header, _, _ := strings.Cut(a.Args, "("); !settable(header) {
				return "set " + header
			}
		case "push_vlan", "push_mpls", "pop_mpls", "recirc", "drop", "meter", "check_pkt_len", "gt", "le":
		default:
			if a.Args != "" { // else it is a port
				return a.Name
			}
		}
	}
	return ""
}

func settable(header string) bool {
	switch header {
	case "tunnel", "eth", "ipv4", "ipv6", "tcp", "udp", "mpls":
		return true
	}
	return false
}

// badMatch names a match that OVS does not give to TC.
func badMatch(f *dpflow.Flow) string {
	for _, m := range f.Match {
		switch m.Name {
		case "dp_hash", "skb_mark", "skb_priority", "ct_tuple4", "ct_tuple6", "nd", "nd_ext", "nsh":
			return m.Name
		case "packet_type":
			if ns, _, _ := m.Arg("ns"); ns != "0" && ns != "" {
				return m.Name
			}
		case "tunnel":
			if _, mask, ok := m.Arg("tp_src"); ok && (mask == "" || strings.Trim(mask, "0x") != "") {
				return "tunnel source port"
			}
		case "ipv6":
			if frag, _, ok := m.Arg("frag"); ok && (frag == "first" || frag == "later") {
				return "ipv6 fragment"
			}
		}
	}
	return ""
}
