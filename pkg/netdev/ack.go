package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// RouteAck sends a request of rtnetlink in the namespace that is acknowledged and no more. An error is the kernel's number. The text
// is what the kernel, or a driver, says with it (NLMSGERR_ATTR_MSG); of a success it is a warning. The netlink library has no
// warnings, and no texts of up to 11 bytes.
func (n *NS) RouteAck(request *nl.NetlinkRequest) (text string, err error) {
	request.Flags |= unix.NLM_F_ACK
	err = inside(n, func() error {
		socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer socket.Close() //nolint:errcheck // it has answered, or not
		if err = errors.Join(socket.SetExtAck(true), socket.SetSendTimeout(&nl.SocketTimeoutTv), socket.SetReceiveTimeout(&nl.SocketTimeoutTv)); err != nil {
			return err
		}
		if err = socket.Send(request); err != nil {
			return err
		}
		for {
			messages, _, err := socket.Receive()
			if err != nil {
				return err
			}
			for _, m := range messages {
				if m.Header.Seq == request.Seq && m.Header.Type == unix.NLMSG_ERROR {
					text, err = parseAck(m)
					return err
				}
			}
		}
	})
	return text, err
}

// parseAck reads struct nlmsgerr: a number, the header of the request, which only without NLM_F_CAPPED has the rest of it, and
// attributes.
func parseAck(m syscall.NetlinkMessage) (text string, err error) {
	const number, header, messageAttribute = 4, unix.SizeofNlMsghdr, nl.NLMSGERR_ATTR_MSG
	if len(m.Data) < number+header {
		return "", fmt.Errorf("an acknowledgement of %d bytes", len(m.Data))
	}
	if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
		err = unix.Errno(-errno)
	}
	rest := m.Data[number+header:]
	if m.Header.Flags&unix.NLM_F_CAPPED == 0 {
		request := (int(binary.NativeEndian.Uint32(m.Data[number:])) + 3) &^ 3
		rest = m.Data[min(number+max(request, header), len(m.Data)):]
	}
	if m.Header.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return "", err
	}
	list, parseErr := nl.ParseRouteAttr(rest)
	for _, a := range list {
		if a.Attr.Type&nl.NLA_TYPE_MASK == messageAttribute {
			text = unix.ByteSliceToString(a.Value)
		}
	}
	return text, errors.Join(err, parseErr)
}
