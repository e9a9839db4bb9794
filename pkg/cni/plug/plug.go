// Package plug gives pods their ports on the integration bridge. It is apart from pkg/cni
// because a DPU makes the ports of its host's pods without a CNI server.
//
// Place in the data flow:
//
//	pkg/cni Attach, Detach -> Plugger: OVS  -> Port and Interface rows -> ovn-controller -> ovn-installed
//	                                   Host (pkg/dpu) -> annotations -> pkg/dpu Ports -> OVS, on the DPU
//
// The rows have the pod on its network as owner, so a pod's new sandbox replaces the rows of
// its old one. They name their sandbox, and are the only record of a port.
package plug

import (
	"context"
	"net"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Plugger is the part of an attachment that is not in the pod: a port of the
// integration bridge, here or on the DPU of this host. A pod has one port at
// most on each network. Methods may be called at once for different pods, and for one pod one
// at a time. Errors may be *types.Error, whose code then is the command's.
type Plugger interface {
	// Plug makes the port, or makes one that is there as it is wanted; a port of
	// the pod's former sandbox is replaced. It may return before the port works.
	// With a VF, the port is its representor, which gets Port.MTU after it is in the
	// bridge, and is set up after that; the VF's own netdev is the caller's. The result is the
	// name of the link on this machine, "" when the switch is on another one.
	Plug(ctx context.Context, p Port) (link string, err error)
	// Wait returns when the pod's first packet will pass. Its error says what is
	// lacking, or what went wrong for good, which it does not wait out.
	Wait(ctx context.Context, p Port) error
	// Check says what a port that was plugged lacks.
	Check(p Plugged) error
	// Unplug sets a representor down, takes it out of the bridge, and returns
	// when that is done, so that the device can be used again. It proves that
	// the port is still of this sandbox; a port that is not is left alone, and
	// one that is not there is done. Veths are the caller's to delete.
	Unplug(ctx context.Context, p Plugged) error
	// Plugged gives the ports of the pods on all networks, of all pods when none is
	// named. It fails rather than to give a part of them.
	Plugged(pods ...contract.Owner) ([]Plugged, error)
}

// Port is a port that a switch is to have.
type Port struct {
	Plugged
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	// NetworkName is "" on the default network.
	NetworkName string
	MTU         int
	// VF is the pod's end; nil for a veth.
	VF *vf.Handle
	// Netdev is the VF's name outside the pod, "" for one that VFIO has.
	Netdev string
}

// Plugged is a port that a switch has.
type Plugged struct {
	Pod     contract.Owner // on the port's network
	UID     string         // of the pod in the API, which for static pods is not the runtime's
	Sandbox string
	IfName  string // in the pod
	// Attachment is the interface name with which the runtime names the attachment. One
	// attachment may have several ports.
	Attachment string
	Network    string // name of the network configuration
	// Link is the switch's end on this machine: the host's end of a veth, a
	// representor, or "" when the switch is on another machine.
	Link string
	// Representor says that Link is one, and not a veth.
	Representor bool
	// Netns is the path of the pod's namespace on this machine; "" where the switch does not say.
	Netns string
}

// SameInterface reports whether both are of the same interface. The alias of a former version's link names no interface.
func (p Plugged) SameInterface(other Plugged) bool {
	return p.Sandbox == other.Sandbox && (p.IfName == "" || other.IfName == "" || p.IfName == other.IfName)
}

// Find gives a pod's port on the owner's network if it has one.
func Find(s Plugger, pod contract.Owner) (p Plugged, ok bool, err error) {
	list, err := s.Plugged(pod)
	for _, p := range list {
		if p.Pod == pod {
			return p, true, nil
		}
	}
	return Plugged{}, false, err
}

// BySandbox finds a port when the runtime does not name the pod.
func BySandbox(s Plugger, sandbox string) (p Plugged, ok bool, err error) {
	list, err := s.Plugged()
	for _, p := range list {
		if p.Sandbox == sandbox {
			return p, true, nil
		}
	}
	return Plugged{}, false, err
}
