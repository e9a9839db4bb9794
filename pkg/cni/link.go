package cni

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// aliasPrefix marks the host's ends of our veths. The sandbox follows, then UID,
// interface and network configuration, which restore a port that the database has
// lost; then the attachment and the network, unless they are the interface and the
// default network. Links without the prefix are never deleted.
const aliasPrefix = "ovn-offload sandbox "

// maxAlias is the kernel's limit.
const maxAlias = 255

func alias(p plug.Plugged) string {
	short := aliasPrefix + p.Sandbox
	long := strings.Join([]string{short, p.UID, p.IfName, p.Network}, " ")
	if p.Pod.Network != "" || p.Attachment != p.IfName {
		long += " " + p.Attachment + " " + p.Pod.Network
	}
	if len(long) > maxAlias {
		return short
	}
	return long
}

// configure gives the pod's end everything but name, MAC and MTU, which it was
// made with. Doing it again changes nothing.
func configure(ns PodLinks, name string, n *contract.PodNetwork) error {
	// The kernel would make the same link-local address, but check it for duplicates first.
	if err := ns.SetLink(name, netdev.Settings{NoLinkLocal: true}); err != nil {
		return err
	}
	addrs := n.Addresses
	if _, ok := contract.IPv6.Pick(addrs); ok {
		addrs = append(slices.Clone(addrs), netdev.LinkLocal([6]byte(n.MAC)))
		// Any pod of the node can advertise itself as a router: OVN lets that through.
		if err := ns.Sysctl("net/ipv6/conf/"+name+"/accept_ra", "0"); err != nil {
			return err
		}
	}
	for _, addr := range addrs {
		if err := ns.ReplaceAddr(name, addr, netdev.AddrOptions{NoDAD: true}); err != nil {
			return err
		}
	}
	for _, up := range []string{"lo", name} {
		if err := ns.SetLink(up, netdev.Settings{State: netdev.Up}); err != nil {
			return err
		}
	}
	for _, route := range routes(name, n) {
		if err := ns.ReplaceRoute(route); err != nil {
			return err
		}
	}
	return nil
}

// routes gives the default routes through the gateways, then the annotation's.
func routes(link string, n *contract.PodNetwork) []netdev.Route {
	var list []netdev.Route
	add := func(dest netip.Prefix, hop netip.Addr) {
		covers := func(p netip.Prefix) bool { return p.Contains(hop) }
		list = append(list, netdev.Route{
			Dest: dest, NextHop: hop, Link: link, OnLink: !slices.ContainsFunc(n.Addresses, covers),
		})
	}
	for _, gw := range n.Gateways {
		add(netip.PrefixFrom(gw, 0).Masked(), gw)
	}
	for _, r := range n.Routes {
		add(r.Dest, r.NextHop)
	}
	return list
}

// checkLink compares the pod's end with the annotation.
func checkLink(ns PodLinks, name string, n *contract.PodNetwork) error {
	link, err := ns.Link(name)
	if err != nil {
		return err
	}
	if link.MAC.String() != n.MAC.String() {
		return fmt.Errorf("%s has MAC %s, not %s", name, link.MAC, n.MAC)
	}
	if !link.Up {
		return fmt.Errorf("%s is down", name)
	}
	addrs, err := ns.Addrs(name)
	if err != nil {
		return err
	}
	for _, want := range n.Addresses {
		if !slices.Contains(addrs, want) {
			return fmt.Errorf("%s lacks address %s", name, want)
		}
	}
	return nil
}

// removeLink deletes the host's end of a port, and so the pod's, if the link is that port's.
func removeLink(host Links, p plug.Plugged) error {
	link, err := host.Link(p.Link)
	if errors.Is(err, netdev.ErrNotFound) {
		return nil
	}
	if made, ok := ours(link); err != nil || !ok || !made.SameInterface(p) {
		return err
	}
	return host.DeleteLink(p.Link)
}

// ours gives the port of a link that we made, without the pod's name. A link of a
// former version tells the sandbox only.
func ours(l netdev.Link) (p plug.Plugged, ok bool) {
	text, ok := strings.CutPrefix(l.Alias, aliasPrefix)
	fields := append(strings.Fields(text), "", "", "", "", "", "")
	return plug.Plugged{
		Pod: contract.Owner{Network: fields[5]}, Sandbox: fields[0], UID: fields[1], IfName: fields[2],
		Attachment: cmp.Or(fields[4], fields[2]), Network: fields[3], Link: l.Name,
	}, ok
}
