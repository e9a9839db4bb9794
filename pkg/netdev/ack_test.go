package netdev_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// ackOf is struct nlmsgerr with the header of a request of 30 bytes, and its rest unless that is capped.
func ackOf(errno int32, flags uint16, attributes ...*nl.RtAttr) syscall.NetlinkMessage {
	data := binary.NativeEndian.AppendUint32(nil, uint32(-errno))
	data = append(binary.NativeEndian.AppendUint32(data, 30), make([]byte, 12)...)
	if flags&unix.NLM_F_CAPPED == 0 {
		data = append(data, make([]byte, 16)...)
	}
	for _, a := range attributes {
		data = append(data, a.Serialize()...)
	}
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_ERROR, Flags: flags}, Data: data}
}

func TestParseAck_TextsOfErrorsAndWarnings(t *testing.T) {
	text, offset := nl.NewRtAttr(nl.NLMSGERR_ATTR_MSG, nl.ZeroTerminated("no")), nl.NewRtAttr(2, nl.Uint32Attr(8))
	for name, c := range map[string]struct {
		m    syscall.NetlinkMessage
		text string
		err  error
	}{
		"success":                 {ackOf(0, unix.NLM_F_CAPPED), "", nil},
		"warning":                 {ackOf(0, unix.NLM_F_CAPPED|unix.NLM_F_ACK_TLVS, text), "no", nil},
		"error":                   {ackOf(95, 0), "", unix.EOPNOTSUPP},
		"error with a text":       {ackOf(95, unix.NLM_F_ACK_TLVS, offset, text), "no", unix.EOPNOTSUPP},
		"capped, with a text":     {ackOf(95, unix.NLM_F_CAPPED|unix.NLM_F_ACK_TLVS, text), "no", unix.EOPNOTSUPP},
		"error without the flag":  {ackOf(95, 0, text), "", unix.EOPNOTSUPP},
		"cut before its own text": {syscall.NetlinkMessage{Header: syscall.NlMsghdr{Flags: unix.NLM_F_ACK_TLVS}, Data: ackOf(95, 0).Data[:21]}, "", unix.EOPNOTSUPP},
	} {
		got, err := netdev.ParseAck(c.m)
		if got != c.text || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := netdev.ParseAck(syscall.NetlinkMessage{Data: make([]byte, 19)}); err == nil {
		t.Error("19 bytes are an acknowledgement")
	}
}

// TestRouteAck_HasTheKernelsText about a rule on a link without a qdisc for it. The control is a request that the kernel does.
func TestRouteAck_HasTheKernelsText(t *testing.T) {
	path := netdevtest.NewNS(t)
	ns, err := netdev.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	link, err := ns.Link("lo")
	if err != nil {
		t.Fatal(err)
	}
	wrong := nl.NewNetlinkRequest(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE)
	wrong.AddData(&nl.TcMsg{Ifindex: int32(link.Index), Parent: 0xfffffff2, Info: 1<<16 | 8})
	wrong.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("flower")))
	if text, err := ns.RouteAck(wrong); err == nil || text == "" {
		t.Errorf("%q, %v", text, err)
	}
	right := nl.NewNetlinkRequest(unix.RTM_NEWLINK, 0)
	right.AddData(&nl.IfInfomsg{IfInfomsg: unix.IfInfomsg{Index: int32(link.Index), Change: unix.IFF_UP, Flags: unix.IFF_UP}})
	if text, err := ns.RouteAck(right); err != nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
}
