package main

import (
	"context"
	"fmt"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// lease asks for an address by DHCP on a link, as a virtual machine does, and prints what it is given.
func lease(link string) error {
	got, err := requested(link, 10*time.Second)
	if err != nil {
		return err
	}
	ones, _ := got.ACK.SubnetMask().Size()
	mtu, _ := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, got.ACK.Options)
	_, err = fmt.Printf("%s/%d router=%v dns=%v mtu=%d hostname=%s\n", got.ACK.YourIPAddr, ones, got.ACK.Router(), got.ACK.DNS(), mtu, got.ACK.HostName())
	return err
}

// requested is what a DHCP server gives on a link within some time.
func requested(link string, within time.Duration, options ...nclient4.ClientOpt) (*nclient4.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	client, err := nclient4.New(link, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Request(ctx)
}
