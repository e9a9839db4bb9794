package nodeflows

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

// convert copies what the dump has of a flow, whose texts share the memory of the dump.
func convert(f *dpflow.Flow, pods map[string]contract.Owner) flowapi.Flow {
	end := func(port string) flowapi.End {
		return endOf(strings.Clone(port), pods[port])
	}
	out := flowapi.Flow{ID: strings.Clone(f.UFID), From: end(f.InPort), Packet: packet(f), Match: match(f), Actions: format(f.Actions)}
	for _, port := range f.Outputs() {
		out.To = append(out.To, end(port))
	}
	out.Recirculation, out.Next = f.Recirc, f.Next()
	out.Drops = len(out.To) == 0 && len(out.Next) == 0 && !hasAction(f, "userspace")
	out.Packets, out.Bytes = f.Packets, f.Bytes
	if f.Used >= 0 {
		idle := f.Used.Seconds()
		out.IdleSeconds = &idle
	}
	return out
}

// endOf is a port with the pod and the network that it serves.
func endOf(port string, pod contract.Owner) flowapi.End {
	end := flowapi.End{Port: port, Namespace: pod.Namespace, Pod: pod.Name}
	if pod.Name != "" {
		end.Network = pod.NetworkKey()
	}
	return end
}

func hasAction(f *dpflow.Flow, name string) bool {
	for a := range f.AllActions() {
		if a.Name == name {
			return true
		}
	}
	return false
}

// packet reads the matches that people ask for.
func packet(f *dpflow.Flow) flowapi.Packet {
	p := flowapi.Packet{Direction: direction(f)}
	for _, m := range f.Match {
		switch m.Name {
		case "eth_type":
			if value, _, _ := m.Arg(""); value == "0x0806" {
				p.Protocol = "arp"
			}
		case "ipv4", "ipv6":
			p.Source, p.Target = address(m, "src"), address(m, "dst")
			if value, mask, ok := m.Arg("proto"); ok && !zero(mask) {
				p.Protocol = protocol(value)
			}
		case "arp":
			p.Source, p.Target = address(m, "sip"), address(m, "tip")
		case "tcp", "udp", "sctp":
			p.SourcePort, p.TargetPort = port(m, "src"), port(m, "dst")
		case "tunnel":
			p.Tunnel = address(m, "src")
		}
	}
	for a := range f.AllActions() {
		if inner, ok := strings.CutPrefix(a.Args, "tunnel("); ok && a.Name == "set" {
			p.Tunnel = address(dpflow.Term{Args: strings.TrimSuffix(inner, ")")}, "dst")
		}
		if a.Name == "tnl_push" { // of datapaths in userspace
			p.Tunnel = pushed(a.Args)
		}
	}
	return p
}

// receiver is the MAC address that a flow matches; "": any, or several.
func receiver(f *dpflow.Flow) string {
	for _, m := range f.Match {
		if m.Name != "eth" {
			continue
		}
		if value, mask, ok := m.Arg("dst"); ok && (mask == "" || mask == "ff:ff:ff:ff:ff:ff") {
			return strings.Clone(value)
		}
	}
	return ""
}

// pushed finds the outer target in tnl_port(2),header(size=50,type=5,eth(...),ipv4(src=192.0.2.1,dst=192.0.2.2,...),...).
func pushed(args string) string {
	for _, family := range []string{"ipv4(", "ipv6("} {
		if _, header, ok := strings.Cut(args, family); ok {
			header, _, _ = strings.Cut(header, ")")
			return address(dpflow.Term{Args: header}, "dst")
		}
	}
	return ""
}

func protocol(number string) string {
	switch number {
	case "1":
		return "icmp"
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "58":
		return "icmp6"
	case "132":
		return "sctp"
	}
	return strings.Clone(number)
}

// address gives an address, or with a mask a network; "": any.
func address(m dpflow.Term, name string) string {
	value, mask, ok := m.Arg(name)
	addr, err := netip.ParseAddr(value)
	if !ok || err != nil {
		return ""
	}
	if mask == "" {
		return addr.String()
	}
	text := net.ParseIP(mask)
	if four := text.To4(); four != nil && addr.Is4() {
		text = four
	}
	ones, bits := net.IPMask(text).Size()
	switch {
	case text.IsUnspecified():
		return ""
	case bits == 0:
		return value + "/" + mask // no prefix
	case ones == bits:
		return addr.String()
	}
	return netip.PrefixFrom(addr, ones).Masked().String()
}

// port gives a number, or NUMBER/MASK; "": any.
func port(m dpflow.Term, name string) string {
	value, mask, ok := m.Arg(name)
	if !ok || zero(mask) {
		return ""
	}
	if mask == "" || mask == "0xffff" {
		return strings.Clone(value)
	}
	return value + "/" + mask
}

// zero says that a mask matches anything.
func zero(mask string) bool {
	n, err := strconv.ParseUint(mask, 0, 64)
	return err == nil && n == 0
}

// match is what a flow matches, without what matches anything.
func match(f *dpflow.Flow) string {
	terms := []dpflow.Term{{Name: "in_port", Args: f.InPort}}
	if f.Recirc != 0 {
		terms = append(terms, dpflow.Term{Name: "recirc_id", Args: "0x" + strconv.FormatUint(uint64(f.Recirc), 16)})
	}
	if f.CT.Mask != 0 {
		terms = append(terms, dpflow.Term{Name: "ct_state", Args: f.CT.String()})
	}
	return format(append(terms, f.Match...))
}

func format(terms []dpflow.Term) string {
	var text strings.Builder
	for i, t := range terms {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(t.Name)
		if t.Args != "" {
			text.WriteString("(" + t.Args + ")")
		}
	}
	return text.String()
}

// direction is that of conntrack which a flow matches; "": any.
func direction(f *dpflow.Flow) string {
	switch {
	case f.CT.Wants(dpflow.CTReply):
		return flowapi.Reply
	case f.CT.Mask&dpflow.CTReply != 0:
		return flowapi.Original
	}
	return ""
}
