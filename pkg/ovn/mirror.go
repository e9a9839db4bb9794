package ovn

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/portmirror"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// Mirrors are the PortMirrors.
type Mirrors interface {
	// PortMirror is nil when there is none of that name.
	PortMirror(name string) *portmirror.Mirror
	// MirrorsOf are the mirrors that copy the packets of a pod.
	MirrorsOf(pod *corev1.Pod) []*portmirror.Mirror
}

// buildMirror gives the mirror of a PortMirror. Each node with a source makes a tunnel of it.
func buildMirror(view View, _ scope, owner contract.Owner) ([]ovsdb.Row, error) {
	mirror := view.PortMirror(owner.Name)
	if mirror == nil {
		return nil, nil
	}
	if mirror.Problem != nil {
		return nil, refusal{mirror.Problem}
	}
	row := &nb.Mirror{
		Name: mirror.Name, Type: nb.MirrorTypeGre, Sink: mirror.Tunnel.Address, Index: mirror.Tunnel.Key, Filter: nb.MirrorFilterBoth,
	}
	if mirror.Tunnel.Protocol == "ERSPAN" {
		row.Type = nb.MirrorTypeErspan
	}
	switch mirror.Direction {
	case "FromPods":
		row.Filter = nb.MirrorFilterFromLport
	case "ToPods":
		row.Filter = nb.MirrorFilterToLport
	}
	return []ovsdb.Row{{ID: mirror.Name, Model: row}}, nil
}

// mirroredBy are the mirrors of a pod's port on the network of a NetworkAttachmentDefinition, "" for the default network.
func mirroredBy(view View, pod *corev1.Pod, nad string) (refs []ovsdb.Reference) {
	for _, mirror := range view.MirrorsOf(pod) {
		if mirror.NAD == nad {
			refs = append(refs, ovsdb.Reference{Column: "mirror_rules", Table: nb.MirrorTable, Name: mirror.Name})
		}
	}
	return refs
}
