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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := nclient4.New(link)
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := client.Request(ctx)
	if err != nil {
		return err
	}
	ones, _ := got.ACK.SubnetMask().Size()
	mtu, _ := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, got.ACK.Options)
	_, err = fmt.Printf("%s/%d router=%v dns=%v mtu=%d hostname=%s\n", got.ACK.YourIPAddr, ones, got.ACK.Router(), got.ACK.DNS(), mtu, got.ACK.HostName())
	return err
}
