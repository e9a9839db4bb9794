package lease

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// DHCP is the Client that asks real servers, in the process's own namespace. It uses packets below the host's
// sockets, so that it disturbs no other client.
type DHCP struct {
	// Timeout is that of the first of Attempts; each has twice the time of the one before.
	Timeout  time.Duration
	Attempts int
}

// Extend asks all servers, as a client does whose own server may be absent.
func (d DHCP) Extend(ctx context.Context, link string, l Lease) (Answer, error) {
	request, err := dhcpv4.New(append(identity(l),
		dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithClientIP(l.Address.Addr().AsSlice()))...)
	if err != nil {
		return Answer{}, fmt.Errorf("extending the lease of %s: %w", l.Address, err)
	}
	client, err := d.open(link, l)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = client.Close() }()
	reply, err := client.SendAndRead(ctx, client.RemoteAddr(), request, nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak))
	if err != nil {
		return Answer{}, fmt.Errorf("extending the lease of %s on %s: %w", l.Address, link, err)
	}
	if reply.MessageType() == dhcpv4.MessageTypeNak {
		return Answer{}, fmt.Errorf("extending the lease of %s on %s: %w", l.Address, link, ErrRefused)
	}
	return answer(reply)
}

// Acquire begins anew.
func (d DHCP) Acquire(ctx context.Context, link string, l Lease) (Answer, error) {
	client, err := d.open(link, l)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = client.Close() }()
	lease, err := client.Request(ctx, identity(l)...)
	if err != nil {
		return Answer{}, fmt.Errorf("asking for a lease on %s: %w", link, err)
	}
	return answer(lease.ACK)
}

func (d DHCP) open(link string, l Lease) (*nclient4.Client, error) {
	client, err := nclient4.New(link, nclient4.WithHWAddr(net.HardwareAddr(l.MAC)), nclient4.WithTimeout(d.Timeout), nclient4.WithRetry(d.Attempts))
	if err != nil {
		return nil, fmt.Errorf("opening %s for DHCP: %w", link, err)
	}
	return client, nil
}

// identity is how the server knows the client again.
func identity(l Lease) []dhcpv4.Modifier {
	modifiers := []dhcpv4.Modifier{
		dhcpv4.WithHwAddr(net.HardwareAddr(l.MAC)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter),
	}
	if id, err := hex.DecodeString(l.ClientID); err == nil && len(id) > 0 {
		modifiers = append(modifiers, dhcpv4.WithOption(dhcpv4.OptClientIdentifier(id)))
	}
	return modifiers
}

func answer(ack *dhcpv4.DHCPv4) (Answer, error) {
	addr, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || addr.IsUnspecified() {
		return Answer{}, errors.New("the DHCP server's answer has no address")
	}
	ones, bits := ack.SubnetMask().Size()
	if bits != addr.BitLen() {
		return Answer{}, errors.New("the DHCP server's answer has no subnet mask")
	}
	a := Answer{Address: netip.PrefixFrom(addr, ones), Time: ack.IPAddressLeaseTime(0)}
	if a.Time == 0 {
		return Answer{}, errors.New("the DHCP server's answer has no lease time")
	}
	if routers := ack.Router(); len(routers) > 0 {
		a.Router, _ = netip.AddrFromSlice(routers[0].To4())
	}
	return a, nil
}

var _ Links = (*netdev.NS)(nil)
