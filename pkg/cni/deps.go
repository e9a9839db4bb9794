package cni

import (
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Config is what the agent decides for all pods of its node.
type Config struct {
	// Socket is where the server listens; its directory is made root-only.
	Socket string
	// MTU gives that of pods, unless the network configuration names one; 0 while
	// it is not known.
	MTU func() int
	// Native has the ADD of the default network make the pod's interfaces on further networks, too. It is for clusters
	// without Multus, which asks for each by itself.
	Native bool
	// How long ADD waits in each stage; together less than shim.Deadline.
	PodTimeout, AnnotationTimeout, DeviceTimeout, FlowsTimeout time.Duration
}

// Defaults leaves only MTU to be set.
func Defaults() Config {
	return Config{
		Socket:     shim.DefaultSocket,
		PodTimeout: 20 * time.Second, AnnotationTimeout: 30 * time.Second,
		DeviceTimeout: 10 * time.Second, FlowsTimeout: 50 * time.Second,
	}
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	switch stages := c.PodTimeout + c.AnnotationTimeout + c.DeviceTimeout + c.FlowsTimeout; {
	case c.Socket == "":
		return errors.New("cni: socket must be set")
	case c.MTU == nil:
		return errors.New("cni: MTU must be set")
	case stages >= shim.Deadline:
		return fmt.Errorf("cni: stages of together %s do not fit into %s", stages, shim.Deadline)
	}
	return nil
}

// Links is what is needed of the host's namespace; *netdev.NS is one.
type Links interface {
	Link(name string) (netdev.Link, error)
	Links() ([]netdev.Link, error)
	AddVeth(v netdev.Veth) error
	SetLink(name string, s netdev.Settings) error
	DeleteLink(name string) error
}

// PodLinks is what is needed of a pod's namespace; *netdev.NS is one.
type PodLinks interface {
	io.Closer
	podlink.NS
}

// Deps is what Attach and Detach act on.
type Deps struct {
	Plugger plug.Plugger
	Pods    *Pods
	// OnNode lists the node's pods. nil: ports of veths that the switch has lost do
	// not come back.
	OnNode func() []*corev1.Pod
	Host   Links
	// Functions is nil on a node where pods get veths only.
	Functions *Functions
	// OpenNS opens a pod's namespace by path.
	OpenNS func(path string) (PodLinks, error)
	// Mapped says that the node has a bridge to a physical network. nil: the switch is on another machine.
	Mapped func(physicalNetwork string) bool
	// Carried is the largest MTU of a physical network, or of the tunnels between nodes for ""; 0: not known. nil: nothing is.
	Carried func(physicalNetwork string) int
	// Warn, if set, puts a Warning Event on a pod.
	Warn func(pod contract.Owner, reason, note string)
	// Ready says why no pod can be attached now; nil when one can.
	Ready func() error
	// Stage, if set, gets the duration of each stage of an ADD.
	Stage func(stage string, took time.Duration)
}

// OpenNS is netdev.Open for Deps.
func OpenNS(path string) (PodLinks, error) {
	ns, err := netdev.Open(path)
	if err != nil {
		return nil, err
	}
	return ns, nil
}
