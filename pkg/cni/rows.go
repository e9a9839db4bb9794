package cni

import (
	"context"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
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
	installedKey = "ovn-installed"
)

// attached is one pod's attachment as the database has it.
type attached struct {
	owner   kube.Owner
	link    string // the host's end
	sandbox string
	uid     string // in the API, not the runtime's
	ifName  string
	mac     string
	network string // name of the network configuration
	// flows says that ovn-controller has installed the port.
	flows bool
	// open says that ovs-vswitchd has the link in its datapath.
	open bool
	// trouble is ovs-vswitchd's complaint, if any.
	trouble string
}

// wanted gives the rows of an attachment. Their id is the link's name: names
// cannot be changed in the database, so another sandbox means other rows.
func wanted(r *Request, bridge, uid string, n *kube.PodNetwork) ovsdb.Want {
	link := r.hostLink()
	return ovsdb.Want{Owner: r.Pod.String(), Rows: []ovsdb.Row{
		{
			ID: link,
			// OVS removes transient ports at boot: their links are gone with the pods.
			Model:   &vswitch.Port{Name: link, OtherConfig: map[string]string{"transient": "true"}},
			Parents: []ovsdb.Parent{{Table: "Bridge", Name: bridge, Column: "ports"}},
		},
		{
			ID: link,
			Model: &vswitch.Interface{Name: link, ExternalIDs: map[string]string{
				macKey:       n.MAC.String(),
				ifaceIDKey:   port(r.Pod),
				ifaceVerKey:  uid,
				sandboxKey:   r.Sandbox,
				addressesKey: join(n),
				ifNameKey:    r.IfName,
				networkKey:   r.Conf.Name,
			}},
			Parents: []ovsdb.Parent{{Table: "Port", Name: link, Column: "interfaces"}},
		},
	}}
}

func join(n *kube.PodNetwork) string {
	list := make([]string, len(n.Addresses))
	for i, p := range n.Addresses {
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

// find gives the attachment of a pod; a pod has at most one.
func find(db DB, pod kube.Owner) (attached, bool) {
	for _, row := range db.Rows(pod.String()) {
		if iface, ok := row.Model.(*vswitch.Interface); ok {
			return fromInterface(pod, iface), true
		}
	}
	return attached{}, false
}

func fromInterface(pod kube.Owner, i *vswitch.Interface) attached {
	a := attached{
		owner:   pod,
		link:    i.Name,
		sandbox: i.ExternalIDs[sandboxKey],
		uid:     i.ExternalIDs[ifaceVerKey],
		ifName:  i.ExternalIDs[ifNameKey],
		mac:     i.ExternalIDs[macKey],
		network: i.ExternalIDs[networkKey],
		flows:   i.ExternalIDs[installedKey] == "true",
		open:    i.Ofport != nil && *i.Ofport > 0,
	}
	if i.Error != nil {
		a.trouble = *i.Error
	}
	return a
}

// all lists the attachments of every pod.
func all(db DB) []attached {
	var list []attached
	for _, name := range db.Owners() {
		owner, err := kube.ParseOwner(name)
		if err != nil || owner.Kind != kube.KindPod {
			continue
		}
		if a, ok := find(db, owner); ok {
			list = append(list, a)
		}
	}
	return list
}

// bySandbox finds an attachment when the runtime does not name the pod.
func bySandbox(db DB, sandbox string) (attached, bool) {
	for _, a := range all(db) {
		if a.sandbox == sandbox {
			return a, true
		}
	}
	return attached{}, false
}
