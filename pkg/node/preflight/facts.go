package preflight

import (
	"net/netip"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
)

// Facts is what was observed of a node.
type Facts struct {
	Node string
	// Datapath is system or netdev, as gateway.Config has it. HostOVS says that the host brings its own Open vSwitch.
	Datapath string
	HostOVS  bool
	Kernel   Kernel
	// Gateway is what the agent would begin with.
	Gateway gateway.Outlook
	NIC     NIC
	Network Network
	// Listeners are sockets at the ports of the network's components.
	Listeners []Listener
	Others    Others
	// AllRPFilter is the sysctl net.ipv4.conf.all.rp_filter.
	AllRPFilter string
	// Unreadable are facts that could not be observed, with the reason.
	Unreadable []string
}

// Kernel is the running one. Modules has those that were looked for, and options of its configuration.
type Kernel struct {
	Release string
	Modules map[string]Module
	// IOMMU says that one is on.
	IOMMU bool
	// CPUs is the number of processors. Connections is the sysctl net.netfilter.nf_conntrack_max; 0 while the kernel has
	// no connection tracking loaded.
	CPUs, Connections int
}

// Module is how a part of the kernel can be had.
type Module int

// A part may be built in without a trace: Unknown is where the host has no list of modules.
const (
	Unknown Module = iota
	Absent
	Available
)

// NIC is the uplink's device.
type NIC struct {
	Driver, Firmware string
	// TotalVFs is how many VFs the device could have.
	TotalVFs int
	// Mode is the eswitch's, Product the kind of NIC, Limit what keeps OVN's flows out of the NIC.
	Mode, Product, Limit string
}

// Network is how the host configures the uplink.
type Network struct {
	// Service is the one that manages the uplink: NetworkManager or systemd-networkd; "" for none of the two.
	Service string
	// Netplan says that netplan has written the service's configuration.
	Netplan bool
	// Leases are the uplink's addresses that end, with the time until then.
	Leases map[netip.Prefix]time.Duration
}

// Listener is a socket at a port of ours. Process is "" where it cannot be seen, and "kernel" for the kernel's own.
type Listener struct {
	Protocol string
	Port     int
	Process  string
}

// Others are traces of other networks.
type Others struct {
	// CNIFiles are configurations of other networks, in the order in which the container runtime reads them.
	CNIFiles []string
	// KubeProxy is what shows kube-proxy: chains, devices or a port.
	KubeProxy []string
	// Masquerade are addresses of the node within the masquerade subnets, with their devices.
	Masquerade []string
	// Links are devices of others with names that the agent needs, with their kinds.
	Links []string
	// KeepsPorts says that the host's Open vSwitch does not remove transient ports when the host boots.
	KeepsPorts bool
	// OVS says that an Open vSwitch runs that is not ours, OVN that an ovn-controller does.
	OVS, OVN bool
}
