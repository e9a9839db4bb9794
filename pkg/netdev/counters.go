package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Counters are those of a port of a NIC's switch.
type Counters struct {
	// Hardware are the packets that came in by the port and that TC's rules there sent on in hardware.
	Hardware uint64
	// Software are the packets that passed the port's link, in both directions. A link that counts all packets of its function
	// says apart which of them the CPU saw: CPUHit.
	Software uint64
	CPUHit   bool
}

// Counters reads those of a link; ErrNotFound when there is no such link.
func (n *NS) Counters(name string) (c Counters, err error) {
	link, err := find(n, name)
	if err != nil {
		return c, err
	}
	if c.Hardware, err = n.sentOn(link); err != nil {
		return c, fmt.Errorf("reading the TC rules of link %s: %w", name, err)
	}
	all := link.Attrs().Statistics
	if all == nil {
		return c, fmt.Errorf("link %s has no counters", name)
	}
	c.Software = all.RxPackets + all.TxPackets
	hit, has, err := n.cpuHit(link.Attrs().Index)
	if err != nil {
		return c, fmt.Errorf("reading what the CPU saw of link %s: %w", name, err)
	}
	if has {
		c.Software, c.CPUHit = hit, true
	}
	return c, nil
}

// sentOn sums the packets of the rules that end a packet's way in the switch. Those before them hand it on to another rule.
func (n *NS) sentOn(link netlink.Link) (packets uint64, err error) {
	rules, err := n.handle.FilterList(link, netlink.MakeHandle(0xffff, 0)) // the ingress qdisc, tc(8)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {        // there is none
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, rule := range rules {
		flower, is := rule.(*netlink.Flower)
		if !is || len(flower.Actions) == 0 {
			continue
		}
		last, is := flower.Actions[len(flower.Actions)-1].(*netlink.MirredAction)
		if is && last.Statistics != nil {
			packets += uint64(last.Statistics.BasicHw.Packets)
		}
	}
	return packets, nil
}

// The layout of RTM_GETSTATS: include/uapi/linux/if_link.h.
const (
	offloadStats    = 4  // IFLA_STATS_LINK_OFFLOAD_XSTATS
	offloadCPUHit   = 1  // IFLA_OFFLOAD_XSTATS_CPU_HIT
	statsMessage    = 12 // struct if_stats_msg, with the link's index and the wanted attributes
	indexInMessage  = 4
	filterInMessage = 8
	rxPackets       = 0 // in struct rtnl_link_stats64
	txPackets       = 8
)

// statsRequest is struct if_stats_msg.
type statsRequest [statsMessage]byte

func (r *statsRequest) Len() int          { return len(r) }
func (r *statsRequest) Serialize() []byte { return r[:] }

// cpuHit are the packets of a port that were not handled in hardware, where the driver counts them apart.
func (n *NS) cpuHit(index int) (packets uint64, has bool, err error) {
	var message statsRequest
	binary.NativeEndian.PutUint32(message[indexInMessage:], uint32(index))
	binary.NativeEndian.PutUint32(message[filterInMessage:], 1<<(offloadStats-1))
	request := nl.NewNetlinkRequest(unix.RTM_GETSTATS, unix.NLM_F_REQUEST)
	request.AddData(&message)
	answers, err := n.RouteRequest(request, unix.RTM_NEWSTATS)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODATA) {
		return 0, false, nil
	}
	if err != nil || len(answers) == 0 {
		return 0, false, err
	}
	return parseCPUHit(answers[0])
}

func parseCPUHit(answer []byte) (packets uint64, has bool, err error) {
	if len(answer) < statsMessage {
		return 0, false, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	outer, err := nl.ParseRouteAttr(answer[statsMessage:])
	if err != nil {
		return 0, false, err
	}
	for _, of := range outer {
		if of.Attr.Type&nl.NLA_TYPE_MASK != offloadStats {
			continue
		}
		inner, err := nl.ParseRouteAttr(of.Value)
		if err != nil {
			return 0, false, err
		}
		for _, counters := range inner {
			if counters.Attr.Type&nl.NLA_TYPE_MASK == offloadCPUHit && len(counters.Value) >= txPackets+8 {
				v := counters.Value
				return binary.NativeEndian.Uint64(v[rxPackets:]) + binary.NativeEndian.Uint64(v[txPackets:]), true, nil
			}
		}
	}
	return 0, false, nil
}
