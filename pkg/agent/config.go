package agent

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node/cnifiles"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

// What a node can be.
const (
	ModeFull = "full"
	ModeHost = "host"
	ModeDPU  = "dpu"
	ModeAuto = "auto"
)

// Config is what the binary's flags say.
type Config struct {
	// Mode is one of the four above.
	Mode string
	// Version is that of the agent.
	Version string
	Kube    api.Config
	// Node is the set-up of the node; on a DPU, its name is that of Serves.
	Node gateway.Config
	CNI  cni.Config
	// OVSDB is the endpoint of the local Open_vSwitch database.
	OVSDB   string
	Chassis chassis.Config
	VFs     VFs
	// Serves is of a DPU. Without a host the local Open_vSwitch names it.
	Serves  dpu.Serves
	Install Install
	Metrics Metrics
	Logger  *slog.Logger
}

// VFs says which VFs pods get, and which the node itself has.
type VFs struct {
	// KubeletDir is where the kubelet has its sockets.
	KubeletDir string
	// Pools are those that the agent serves as a device plugin; nil: one of all VFs that
	// can offload.
	Pools []plugin.Pool
	// Resources are those of other device plugins.
	Resources []string
	// InitialNetns is the path of the initial network namespace, where the node is another one.
	InitialNetns string
	// UnitDir is where the host's systemd finds units; empty: the host has none.
	UnitDir  string
	Purposes vf.Settings
}

// Install says where the container runtime looks for networks and plugins, where the host's network services look for
// configuration of one boot, and where the host's processes are, such as the one of ovs-vswitchd's pid file.
type Install struct {
	Conf                      cnifiles.Dir
	BinDir, Plugin, Run, Proc string
}

// Metrics are the addresses at which metrics and health are served: plain for the node
// itself, and over TLS; "" for nowhere. Flows is the same for flows.
type Metrics struct {
	Local, Secure string
	// Health is where load balancers ask for the node; "" for nowhere.
	Health string
	Flows  Flows
	// Detail says whose traffic has series of its own.
	Detail offload.Detail
}

// Flows says where the flows of the node are served: at a socket to the node's root, and at an address over TLS to the
// relay; "" for nowhere.
type Flows struct{ Socket, Address string }

// Defaults leaves the node's name, the pod networks and the Southbound database to be set.
func Defaults() Config {
	return Config{
		Mode: ModeFull, Node: gateway.Defaults(), CNI: cni.Defaults(), Chassis: chassis.Defaults(),
		OVSDB: "unix:/run/openvswitch/db.sock", VFs: VFs{KubeletDir: "/var/lib/kubelet", UnitDir: "/etc/systemd/system"},
		Install: Install{
			Conf: cnifiles.Dir{Path: "/etc/cni/net.d", Managed: true}, BinDir: "/opt/cni/bin", Plugin: "/usr/local/bin/" + cnifiles.PluginName,
			Run: "/run", Proc: "/proc",
		},
		Metrics: Metrics{Local: "127.0.0.1:9410", Flows: Flows{Socket: "/run/ovn-kubernetes/flows.sock"}, Detail: offload.DetailNamespace}, Logger: slog.New(slog.DiscardHandler),
	}
}

// Validate says what is wrong with a Config. Each part checks its own when it is made.
func (c Config) Validate() error {
	if !slices.Contains([]string{ModeFull, ModeHost, ModeDPU, ModeAuto}, c.Mode) {
		return fmt.Errorf("mode %q: none of full, host, dpu and auto", c.Mode)
	}
	return nil
}

// served gives the pools that the agent serves, and all resources whose devices become a
// pod's network.
func (v VFs) served(defaults []plugin.Pool) (pools []plugin.Pool, resources []string) {
	if pools = v.Pools; pools == nil {
		pools = defaults
	}
	resources = slices.Clone(v.Resources)
	pools = slices.DeleteFunc(slices.Clone(pools), func(p plugin.Pool) bool { return slices.Contains(resources, p.Resource) })
	for _, p := range pools {
		resources = append(resources, p.Resource)
	}
	return pools, resources
}
