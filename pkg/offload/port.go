package offload

import (
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// Device is what the inventory knows of a link that may offload.
type Device struct {
	// Representor is true of the ports of a NIC in switchdev mode: representors
	// of VFs, scalable functions and PFs, uplinks, and bonds of uplinks.
	Representor bool `json:"representor,omitempty"`
	// HWTC is the link's hw-tc-offload.
	HWTC bool `json:"hwTC,omitempty"`
	// Function is true of representors behind which a pod may be: not of uplinks.
	Function bool `json:"function,omitempty"`
	// Limit is what the NIC's class is known not to do, in words, or "".
	Limit string `json:"limit,omitempty"`
}

// Port is a port of the switch with the pod that it serves.
type Port struct {
	// Name is the Interface's and the link's.
	Name string `json:"name"`
	// Pod is zero for ports that are no pod's. MAC is the address of its interface.
	Pod contract.Owner `json:"pod,omitzero"`
	MAC string         `json:"mac,omitempty"`
	// Type is OVS's: "" for a link of the system, internal, geneve, dpdk, ...
	Type string `json:"type,omitempty"`
	Device
}

const (
	noDevice   = "not a representor"
	noHWTC     = "hw-tc-offload is off"
	isInternal = "internal port"
)

// lacks says in words what keeps the port from offloading, "" if nothing.
// Tunnels have no hardware of their own: OVS offloads them through the uplink.
func (p Port) lacks() string {
	switch {
	case p.Type == "internal":
		return isInternal
	case tunnel(p.Type):
		return ""
	case !p.Representor:
		return noDevice
	case !p.HWTC && !strings.HasPrefix(p.Type, "dpdk") && p.Type != "doca":
		return noHWTC
	}
	return ""
}

func tunnel(kind string) bool {
	switch kind {
	case "geneve", "vxlan", "gre", "ip6gre", "erspan", "ip6erspan", "gtpu", "bareudp":
		return true
	}
	return false
}

// Ports joins the Interface table with the inventory. The owner of a row of ours says which pod it serves.
func Ports(rows []*vswitch.Interface, devices map[string]Device) []Port {
	ports := make([]Port, 0, len(rows))
	for _, row := range rows {
		p := Port{Name: row.Name, Type: row.Type, Device: devices[row.Name]}
		if owner, err := contract.ParseOwner(row.ExternalIDs[ovsdb.OwnerKey]); err == nil && owner.Kind == contract.KindPod {
			p.Pod, p.MAC = owner, row.ExternalIDs["attached_mac"]
		}
		ports = append(ports, p)
	}
	return ports
}
