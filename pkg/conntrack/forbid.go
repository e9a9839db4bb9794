package conntrack

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// nobody is a MAC that no logical switch knows: what is sent there comes past
// all rules and ends.
const nobody = "02:00:00:00:00:01"

// question is whether a policy allows a server to a client in a zone. Policies do
// not know a client's port.
type question struct {
	zone   int
	client netip.Addr
	server netip.AddrPort
}

// ask has ovs-vswitchd go through its tables with the client's next packet,
// which is never sent, and reports whether it would be forbidden. A pod's packet
// comes from its port, another node's or the outside's by a tunnel.
func (k *Keeper) ask(ctx context.Context, c connection, l local, t tables) (bool, error) {
	client, server := c.orig.src, c.server()
	to := nobody
	if pod, ok := l.pods[server.Addr()]; ok {
		to = pod.mac
	}
	var from string
	if pod, ok := l.pods[client.Addr()]; ok {
		from = fmt.Sprintf("in_port=%d,dl_src=%s,dl_dst=%s", pod.ofPort, pod.mac, to)
	} else {
		key := t.keys[l.pods[server.Addr()].ofPort]
		from = fmt.Sprintf("in_port=%d,tun_id=%#x,tun_metadata0=%#x,dl_src=%s,dl_dst=%s", l.tunnel, key.datapath, key.port, nobody, to)
	}
	match := "udp,%s,nw_src=%s,nw_dst=%s,nw_ttl=64,udp_src=%d,udp_dst=%d"
	if client.Addr().Is6() {
		match = "udp6,%s,ipv6_src=%s,ipv6_dst=%s,nw_ttl=64,udp_src=%d,udp_dst=%d"
	}
	args := []string{k.cfg.Bridge, fmt.Sprintf(match, from, client.Addr(), server.Addr(), client.Port(), server.Port())}
	for range 4 { // at most: from-lport and to-lport, with and without NAT
		args = append(args, "--ct-next", "trk,est")
	}
	answer, err := k.deps.Switch.Call(ctx, "ofproto/trace", args...)
	return strings.Contains(answer, fmt.Sprintf("ct(commit,zone=%d,mark=0x1/0x1", c.zone)), err
}

// forbidding are the packets, in the notation of an OpenFlow bundle, that make a
// connection one that OVN has found forbidden: from then on its server's packets
// are dropped, and the client's are looked at. They go no further than connection
// tracking. The first turns the connection round and the second turns it back,
// with which it begins anew: what a NIC knows of the old one ends, and no packet
// of the server's finds none.
func forbidding(c connection) []string {
	nat := ""
	if c.balanced() {
		nat = fmt.Sprintf(",nat(dst=%s)", c.server())
	}
	const packet = "packet-out in_port=controller,packet=%s,actions=ct(zone=%d),ct(commit,force,zone=%d%s,exec(set_field:%#x->ct_mark))"
	mark := c.mark | blocked
	return []string{
		fmt.Sprintf(packet, hex.EncodeToString(frame(c.reply)), c.zone, c.zone, "", mark),
		fmt.Sprintf(packet, hex.EncodeToString(frame(c.orig)), c.zone, c.zone, nat, mark),
	}
}

// frame is an empty UDP packet; checksums are looked at by connection tracking.
func frame(t tuple) []byte {
	const udp, udpLength, ttl = 17, 8, 64
	src, dst := t.src.Addr().AsSlice(), t.dst.Addr().AsSlice()
	payload := make([]byte, udpLength)
	binary.BigEndian.PutUint16(payload, t.src.Port())
	binary.BigEndian.PutUint16(payload[2:], t.dst.Port())
	binary.BigEndian.PutUint16(payload[4:], udpLength)
	sum := checksum(src, dst, []byte{0, udp, 0, udpLength}, payload)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(payload[6:], sum)

	packet := make([]byte, 12, 64) // no MACs
	if t.src.Addr().Is4() {
		header := []byte{0x45, 0, 0, 20 + udpLength, 0, 0, 0, 0, ttl, udp, 0, 0}
		binary.BigEndian.PutUint16(header[10:], checksum(header, src, dst))
		packet = append(append(packet, 0x08, 0x00), header...)
	} else {
		packet = append(packet, 0x86, 0xdd, 0x60, 0, 0, 0, 0, udpLength, udp, ttl)
	}
	return append(append(append(packet, src...), dst...), payload...)
}

// checksum is the Internet's, of parts of even length.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, part := range parts {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
