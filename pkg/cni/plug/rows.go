package plug

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// Keys of an Interface's external_ids. ovn-controller binds the port named by
// ifaceIDKey and sets installedKey when its flows are there; the others are the
// contract with tools that map ports to pods.
const (
	macKey       = "attached_mac"
	ifaceIDKey   = "iface-id"
	ifaceVerKey  = "iface-id-ver"
	sandboxKey   = "sandbox"
	addressesKey = "ip_addresses"
	ifNameKey    = "pod-if-name"
	networkKey   = "ovn-offload.io/network"
	// attachmentKey is not there where it is that of ifNameKey.
	attachmentKey = "ovn-offload.io/attachment"
	// netnsKey is there for veths on further networks.
	netnsKey       = "ovn-offload.io/netns"
	mirrorKey      = "mirror-id"           // on further networks: its port, to which a PortMirror can send copies
	nadKey         = "k8s.ovn.org/nad"     // on further networks: the attachment's key
	networkNameKey = "k8s.ovn.org/network" // and the network's name
	vfNetdevKey    = "vf-netdev-name"      // of representors: both or one
	vfioKey        = "vf-is-vfio"
	installedKey   = "ovn-installed"
	// formerMACKey is, on a DPU, what the function had before its pod.
	formerMACKey = "ovn-offload.io/former-mac"
	bootKey      = "ovn-offload.io/boot" // in which the row was made
)

// ovsPort is a port as the database has it.
type ovsPort struct {
	Plugged
	// flows says that ovn-controller has installed the port.
	flows bool
	// open says that ovs-vswitchd has the link in its datapath.
	open bool
	// formerMAC is what the function had before its pod, "" where it was not changed.
	formerMAC string
	// boot is that in which the row was made, "" of a former version's.
	boot string
	// problem is ovs-vswitchd's error, if any.
	problem string
}

// wanted gives the rows of a port. Their id is the link's name: names cannot be
// changed in the database, so another sandbox means other rows.
func wanted(p Port, bridge, boot string) ovsdb.Want {
	ids := map[string]string{
		macKey:       p.MAC.String(),
		ifaceIDKey:   LogicalPort(p.Pod),
		ifaceVerKey:  p.UID,
		sandboxKey:   p.Sandbox,
		addressesKey: join(p.Addresses),
		ifNameKey:    p.IfName,
		networkKey:   p.Network,
	}
	if boot != "" {
		ids[bootKey] = boot
	}
	if p.Attachment != p.IfName {
		ids[attachmentKey] = p.Attachment
	}
	if p.Pod.Network != "" {
		ids[nadKey], ids[networkNameKey] = p.Pod.Network, p.NetworkName
		ids[mirrorKey] = ids[ifaceIDKey]
		if p.VF == nil && p.Netns != "" {
			ids[netnsKey] = p.Netns
		}
	}
	if p.VF != nil {
		ids[vfNetdevKey] = p.Netdev
		if p.VF.VFIO {
			ids[vfioKey] = "true"
		}
	}
	return ovsdb.Want{Owner: p.Pod.String(), Rows: []ovsdb.Row{
		{
			ID: p.Link,
			// OVS removes transient ports at boot (ovs-ctl, or our image's ovn-daemon): their
			// links are gone with the pods.
			Model:   &vswitch.Port{Name: p.Link, OtherConfig: vswitch.Transient()},
			Parents: []ovsdb.Parent{{Table: "Bridge", Name: bridge, Column: "ports"}},
		},
		{
			ID:      p.Link,
			Model:   &vswitch.Interface{Name: p.Link, ExternalIDs: ids},
			Parents: []ovsdb.Parent{{Table: "Port", Name: p.Link, Column: "interfaces"}},
		},
	}}
}

func join(addresses []netip.Prefix) string {
	list := make([]string, len(addresses))
	for i, p := range addresses {
		list[i] = p.String()
	}
	return strings.Join(list, ",")
}

// commit makes one want true; a want that the engine refuses is an error here.
func commit(ctx context.Context, db DB, want ovsdb.Want) error {
	result, err := db.Commit(ctx, want)
	if err != nil {
		return err
	}
	return result.Failed[want.Owner]
}

// find gives the port of a pod on the owner's network.
func find(db DB, pod contract.Owner) (ovsPort, bool) {
	for _, row := range db.Rows(pod.String()) {
		if iface, ok := row.Model.(*vswitch.Interface); ok {
			return fromInterface(pod, iface), true
		}
	}
	return ovsPort{}, false
}

func fromInterface(pod contract.Owner, i *vswitch.Interface) ovsPort {
	p := ovsPort{
		Plugged: Plugged{
			Pod:        pod,
			UID:        i.ExternalIDs[ifaceVerKey],
			Sandbox:    i.ExternalIDs[sandboxKey],
			IfName:     i.ExternalIDs[ifNameKey],
			Attachment: cmp.Or(i.ExternalIDs[attachmentKey], i.ExternalIDs[ifNameKey]),
			Network:    i.ExternalIDs[networkKey],
			Link:       i.Name,
			Netns:      i.ExternalIDs[netnsKey],
		},
		flows:     i.ExternalIDs[installedKey] == "true",
		formerMAC: i.ExternalIDs[formerMACKey],
		boot:      i.ExternalIDs[bootKey],
		open:      i.Ofport != nil && *i.Ofport > 0,
	}
	_, p.Representor = i.ExternalIDs[vfNetdevKey]
	if i.Error != nil {
		p.problem = *i.Error
	}
	return p
}

// podsOf lists the pods that own rows, on each of their networks. Without a choice these are all pods.
func podsOf(db DB, choice ...contract.Owner) []contract.Owner {
	var list []contract.Owner
	for _, name := range db.Owners() {
		owner, err := contract.ParseOwner(name)
		chosen := func(pod contract.Owner) bool { return pod.On("") == owner.On("") }
		if err == nil && owner.Kind == contract.KindPod && (len(choice) == 0 || slices.ContainsFunc(choice, chosen)) {
			list = append(list, owner)
		}
	}
	return list
}

// LogicalPort is the name of the pod's logical switch port, which is its iface-id.
func LogicalPort(pod contract.Owner) string {
	return contract.Network{Name: pod.Network}.PodPort(pod.Namespace, pod.Name)
}
