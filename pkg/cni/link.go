package cni

import (
	"cmp"
	"errors"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// aliasPrefix marks the host's ends of our veths. The sandbox follows, then UID,
// interface and network configuration, which restore a port that the database has
// lost; then the attachment and the network, unless they are the interface and the
// default network. Links without the prefix are never deleted.
const aliasPrefix = netdev.AliasPrefix + "sandbox "

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
// former version tells the sandbox only. Only a veth is ours: a VF that comes back has the
// alias that its pod has given it.
func ours(l netdev.Link) (p plug.Plugged, ok bool) {
	text, ok := strings.CutPrefix(l.Alias, aliasPrefix)
	ok = ok && l.Type == "veth"
	fields := append(strings.Fields(text), "", "", "", "", "", "")
	return plug.Plugged{
		Pod: contract.Owner{Network: fields[5]}, Sandbox: fields[0], UID: fields[1], IfName: fields[2],
		Attachment: cmp.Or(fields[4], fields[2]), Network: fields[3], Link: l.Name,
	}, ok
}
