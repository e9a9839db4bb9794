// Package tcrule reads the rules of TC that Open vSwitch made for flows of its datapath, and offers one to the driver once more.
//
// Place in the data flow:
//
//	kernel -> Of -> nodeflows.Source -> flowapi.TCRule
//	kubectl offload explain flow --ask-driver -> exec: ovn-offload-agent ask-driver -> nodeflows.Ask -> Offer -> the NIC's driver
//
// The netlink library reads neither cookies nor whether a driver has a rule, and it knows fewer matches than the kernel. So rules
// stay in the form of the kernel's messages here: what was not looked at is offered as it was. It is a package of its own because
// pkg/netdev names links and knows nothing of flows.
package tcrule

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Kernel is a netdev.NS.
type Kernel interface {
	Link(name string) (netdev.Link, error)
	RouteRequest(request *nl.NetlinkRequest, answers uint16) ([][]byte, error)
	RouteAck(request *nl.NetlinkRequest) (text string, err error)
}

// Rule is a rule of TC that Open vSwitch made for a flow of its datapath.
type Rule struct {
	// Flow is the UFID, which Open vSwitch writes into the cookie of the rule's actions.
	Flow     string
	Chain    uint32
	Priority uint16
	Handle   uint32
	// InHardware: a driver has taken the rule.
	InHardware bool
	// Hardware are the packets that the driver has counted for the rule's last action.
	Hardware uint64
}

// Of are the rules of flows that come in by a link; netdev.ErrNotFound when there is no such link.
func Of(k Kernel, link string) (rules []Rule, err error) {
	answers, err := dump(k, link)
	for _, answer := range answers {
		rule, ok, parseErr := parse(answer)
		if ok {
			rules = append(rules, rule)
		}
		err = errors.Join(err, parseErr)
	}
	if err != nil {
		return rules, fmt.Errorf("reading the rules of flows of link %s: %w", link, err)
	}
	return rules, nil
}

// dump gives all rules of packets that come in by a link, each as struct tcmsg with its attributes.
func dump(k Kernel, name string) ([][]byte, error) {
	link, err := k.Link(name)
	if err != nil {
		return nil, err
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
	request.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(link.Index), Parent: netlink.HANDLE_MIN_INGRESS})
	answers, err := k.RouteRequest(request, unix.RTM_NEWTFILTER)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // there is no qdisc for them
		return nil, nil
	}
	return answers, err
}

// inHardware is TCA_CLS_FLAGS_IN_HW of include/uapi/linux/pkt_cls.h.
const inHardware = 1 << 2

// parse reads one rule; not ok: it is of no flow.
func parse(answer []byte) (rule Rule, ok bool, err error) {
	if len(answer) < nl.SizeofTcMsg {
		return rule, false, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	head := nl.DeserializeTcMsg(answer)
	rule.Priority, rule.Handle = uint16(head.Info>>16), head.Handle
	of, err := attributes(answer[nl.SizeofTcMsg:])
	if err != nil || nl.BytesToString(of[nl.TCA_KIND]) != "flower" {
		return rule, false, err
	}
	if chain := of[nl.TCA_CHAIN]; len(chain) >= 4 {
		rule.Chain = binary.NativeEndian.Uint32(chain)
	}
	flower, err := attributes(of[nl.TCA_OPTIONS])
	if err != nil {
		return rule, false, err
	}
	if flags := flower[nl.TCA_FLOWER_FLAGS]; len(flags) >= 4 {
		rule.InHardware = binary.NativeEndian.Uint32(flags)&inHardware != 0
	}
	actions, err := nl.ParseRouteAttr(flower[nl.TCA_FLOWER_ACT])
	if err != nil {
		return rule, false, err
	}
	for _, a := range actions {
		if err := rule.action(a.Value); err != nil {
			return rule, false, err
		}
	}
	return rule, rule.Flow != "", nil
}

// action reads an action of a rule. What it counts replaces what one before has counted.
func (r *Rule) action(value []byte) error {
	action, err := attributes(value)
	if err != nil {
		return err
	}
	if cookie := action[nl.TCA_ACT_COOKIE]; len(cookie) == 16 {
		r.Flow = ufid(cookie)
	}
	counters, err := attributes(action[nl.TCA_ACT_STATS])
	if err != nil {
		return err
	}
	r.Hardware = 0
	if basic := counters[nl.TCA_STATS_BASIC_HW]; len(basic) >= 12 { // struct gnet_stats_basic: bytes, packets
		r.Hardware = uint64(binary.NativeEndian.Uint32(basic[8:]))
	}
	return nil
}

// ufid is the text of Open vSwitch for 16 bytes, which are four words in the order of the machine.
func ufid(cookie []byte) string {
	var word [4]uint32
	for i := range word {
		word[i] = binary.NativeEndian.Uint32(cookie[4*i:])
	}
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%04x%08x", word[0], word[1]>>16, word[1]&0xffff, word[2]>>16, word[2]&0xffff, word[3])
}

// attributes are the values of attributes by their type.
func attributes(b []byte) (map[uint16][]byte, error) {
	list, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil, err
	}
	out := make(map[uint16][]byte, len(list))
	for _, a := range list {
		out[a.Attr.Type&nl.NLA_TYPE_MASK] = a.Value
	}
	return out, nil
}
