// Command agent is the node's part: it sets the node up for the network, keeps
// it so, and answers the CNI plugin.
//
//	flags -> options -> wire: kube.NodeView, ovsdb.DB (local OVS), netdev
//	      -> gateway.Setup (gateway bridge, management port, annotations)
//	      -> cni.Server, once the node is set up; the CNI configuration last
//
// With the argument "cleanup" it takes back what it has done to the host, and with
// "fail-back" only what stops working without ovs-vswitchd.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node/cnifiles"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

// version is set by the linker.
var version = "dev" //nolint:gochecknoglobals // -ldflags -X needs a variable

// options are the flags, first as they are given, then as the parts take them.
type options struct {
	mode, clusterCIDRs, serviceCIDRs, encapIP string
	level                                     slog.Level

	kube    api.Config
	node    gateway.Config
	cni     cni.Config
	ovsdb   string
	metrics struct{ local, secure string }
	devices deviceOptions
	install struct{ confDir, binDir, plugin string }
	dpu     dpuOptions
	chassis chassis.Config
	log     *slog.Logger
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ovn-offload-agent:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := options{node: gateway.Defaults(), cni: cni.Defaults(), chassis: chassis.Defaults(), kube: api.Config{UserAgent: "ovn-offload-agent/" + version}}
	root := &cobra.Command{
		Use:               "ovn-offload-agent",
		Short:             "sets a node up for the network and attaches its pods",
		Version:           version,
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return o.complete() },
		RunE:              func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	root.AddCommand(&cobra.Command{
		Use:   "cleanup",
		Short: "gives the uplink its addresses back and removes what the agent has made",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cleanup(cmd.Context(), o) },
	})
	root.AddCommand(&cobra.Command{
		Use: "fail-back", Aliases: []string{"retreat"}, // its name in earlier releases
		Short: "gives the uplink its addresses back while ovs-vswitchd does not run; a running agent moves them to the bridge again",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return failBack(cmd.Context(), o) },
	})
	root.AddCommand(inventoryCommand(), offloadCommand(&o))
	o.register(root)
	return root
}

func (o *options) register(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&o.mode, "mode", modeFull, "what the node is: full, host (with a DPU), dpu, or auto: as its labels and devices say, for which each start asks the API server")
	f.StringVar(&o.node.Node, "node-name", "", "name of the Node object")
	f.StringVar(&o.kube.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	f.StringVar(&o.kube.Server, "apiserver", "", "URL of the API server; empty: as the kubeconfig or the cluster says")
	f.StringVar(&o.ovsdb, "ovsdb", "unix:/run/openvswitch/db.sock", "the local Open_vSwitch database")
	f.StringVar(&o.node.Remote, "sb", "", "the Southbound database as ovn-controller takes it, such as ssl:172.18.0.3:6642")
	f.StringVar(&o.chassis.Dir, "chassis-dir", o.chassis.Dir, "where key and certificate of the chassis are kept for ovn-controller, if --sb is an ssl endpoint")
	f.StringVar(&o.clusterCIDRs, "cluster-cidrs", "10.244.0.0/16/24", "pod networks, each with the prefix length of a node")
	f.StringVar(&o.serviceCIDRs, "service-cidrs", "", "service networks, which the node's own processes reach too")
	f.IntVar(&o.node.MTU, "mtu", 0, "MTU of pods; 0: the underlay's less the encapsulation")
	f.StringVar(&o.node.GatewayInterface, "gateway-interface", "", "uplink, or a bridge that has it; empty: the interface of the default route")
	f.StringVar(&o.node.SecondInterface, "exgw-interface", "", "NIC or bridge of a second external bridge, by which pods reach the networks there; empty: none")
	f.StringVar(&o.node.Datapath, "datapath", o.node.Datapath, "where OVS forwards: system (kernel) or netdev (userspace)")
	f.StringVar(&o.encapIP, "encap-ip", "", "address of the tunnels' end; empty: the node's")
	f.StringVar(&o.node.Checkpoint, "checkpoint", o.node.Checkpoint, "file that holds the uplink's original state")
	f.StringVar(&o.devices.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "where the kubelet has its sockets")
	f.StringVar(&o.devices.pools, "vf-pools", "", "VFs to hand out, in the JSON of the sriov-network-device-plugin; empty: "+plugin.DefaultResource)
	f.StringVar(&o.devices.foreign, "vf-resources", "", "resources of other device plugins whose VFs become a pod's network, with commas between")
	f.StringVar(&o.devices.management, "management-vf", "", "VF that is the node's own interface in its pod subnet, by PF, such as ens1f0#0; empty: none, and an internal port of OVS where that runs")
	f.StringVar(&o.devices.gateway, "gateway-vf", "", "VF that has the node's address in place of the gateway bridge's own interface, by PF, such as ens1f0#1; empty: none")
	f.StringVar(&o.devices.stray, "initial-netns", "", "path of the initial network namespace, where the node is another one")
	f.StringVar(&o.metrics.local, "metrics-address", "127.0.0.1:9410", "where /metrics, /healthz and /readyz are served to the node itself")
	f.StringVar(&o.metrics.secure, "secure-metrics-address", "", "where /metrics is served over TLS to accounts that may get it, such as :9412; empty: nowhere")
	f.StringVar(&o.install.confDir, "cni-conf-dir", "/etc/cni/net.d", "where the runtime looks for networks")
	f.StringVar(&o.install.binDir, "cni-bin-dir", "/opt/cni/bin", "where the runtime looks for plugins")
	f.StringVar(&o.install.plugin, "cni-plugin", "/usr/local/bin/"+cnifiles.PluginName, "the plugin to install there")
	f.StringVar(&o.dpu.host, "dpu-host", "", "name of the Node whose DPU this is; empty: as external_ids:host-k8s-nodename of the local Open_vSwitch says")
	f.StringVar(&o.dpu.controller, "dpu-host-controller", "", "the host's numbers in the NIC's switch, such as 1,2, for a DPU with several hosts or a host with several numbers")
	f.StringVar(&o.devices.defaultPods, "reserved-vfs", "", "on a host with a DPU: VFs for pods that ask for none, by PF, such as 'ens1f0#0-15 ens1f1#0-15'")
	f.TextVar(&o.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// complete turns texts into values.
func (o *options) complete() error {
	if !slices.Contains([]string{modeFull, modeHost, modeDPU, modeAuto}, o.mode) {
		return fmt.Errorf("--mode=%s: none of full, host, dpu and auto", o.mode)
	}
	if err := o.dpu.complete(); err != nil {
		return err
	}
	var err error
	if o.node.Network.Subnets, err = ipam.ParseClusterSubnets(o.clusterCIDRs); err != nil {
		return fmt.Errorf("--cluster-cidrs: %w", err)
	}
	if o.node.Zone.ServiceSubnets, err = ipam.ParsePrefixes(o.serviceCIDRs); err != nil {
		return fmt.Errorf("--service-cidrs: %w", err)
	}
	if err := o.devices.complete(); err != nil {
		return err
	}
	if o.encapIP != "" {
		if o.node.EncapAddress, err = netip.ParseAddr(o.encapIP); err != nil {
			return fmt.Errorf("--encap-ip: %w", err)
		}
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.level})
	o.log = slog.New(handler).With("node", o.node.Node)
	return nil
}
