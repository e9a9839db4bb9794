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
	// CollectorOn is the pod of a node that gets the copies of a mirror, nil when there is none.
	CollectorOn(mirror *portmirror.Mirror, node string) *corev1.Pod
}

// buildMirror gives the mirror of a PortMirror. Each node with a source makes a tunnel of it. Where pods are the collectors,
// each node with one has a mirror of its own. The interface of the pod has the name of its port as external_ids:mirror-id.
func buildMirror(view View, _ scope, owner contract.Owner) ([]ovsdb.Row, error) {
	mirror := view.PortMirror(owner.Name)
	if mirror == nil {
		return nil, nil
	}
	if mirror.Problem != nil {
		return nil, refusal{mirror.Problem}
	}
	row := &nb.Mirror{Name: mirror.Name, Filter: nb.MirrorFilterBoth}
	switch node := owner.Namespace; {
	case (mirror.Tunnel == nil) != (node != ""):
		return nil, nil
	case node != "":
		collector := view.CollectorOn(mirror, node)
		if collector == nil {
			return nil, nil
		}
		port := contract.Network{Name: mirror.CollectorNAD}.PodPort(collector.Namespace, collector.Name)
		row.Name, row.Type, row.Sink = mirrorOn(mirror, node), nb.MirrorTypeLocal, port
	default:
		row.Type, row.Sink, row.Index = nb.MirrorTypeGre, mirror.Tunnel.Address, mirror.Tunnel.Key
		if mirror.Tunnel.Protocol == "ERSPAN" {
			row.Type = nb.MirrorTypeErspan
		}
	}
	switch mirror.Direction {
	case "FromPods":
		row.Filter = nb.MirrorFilterFromLport
	case "ToPods":
		row.Filter = nb.MirrorFilterToLport
	}
	return []ovsdb.Row{{ID: row.Name, Model: row}}, nil
}

// mirrorOn is the name of a mirror to a collector on a node.
func mirrorOn(mirror *portmirror.Mirror, node string) string { return mirror.Name + "/" + node }

// mirroredBy are the mirrors of a pod's port on the network of a NetworkAttachmentDefinition, "" for the default network.
func mirroredBy(view View, pod *corev1.Pod, nad string) (refs []ovsdb.Reference) {
	for _, mirror := range view.MirrorsOf(pod) {
		if mirror.NAD != nad {
			continue
		}
		name := mirror.Name
		if mirror.Tunnel == nil {
			collector := view.CollectorOn(mirror, pod.Spec.NodeName)
			if collector == nil || collector.UID == pod.UID && mirror.CollectorNAD == nad {
				continue
			}
			name = mirrorOn(mirror, pod.Spec.NodeName)
		}
		refs = append(refs, ovsdb.Reference{Column: "mirror_rules", Table: nb.MirrorTable, Name: name})
	}
	return refs
}
