// Command agent is the node's part: it sets the node up for the network, keeps
// it so, and answers the CNI plugin.
//
//	flags -> agent.Config -> agent.Run, or what a subcommand does once
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
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ovn-offload/ovn-offload/pkg/agent"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

// version is set by the linker.
var version = "dev" //nolint:gochecknoglobals // -ldflags -X needs a variable

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if code, ok := errors.AsType[verdict](err); ok {
		os.Exit(int(code))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ovn-offload-agent:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cfg, level := agent.Defaults(), slog.LevelInfo
	cfg.Version, cfg.Kube.UserAgent = version, "ovn-offload-agent/"+version
	root := &cobra.Command{
		Use: "ovn-offload-agent", Short: "sets a node up for the network and attaches its pods",
		Version: version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			cfg.Logger = expose.Logger(os.Stderr, level).With("node", cfg.Node.Node)
			return cfg.Validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return agent.Run(cmd.Context(), cfg) },
	}
	root.AddCommand(&cobra.Command{
		Use: "cleanup", Short: "gives the uplink its addresses back and removes what the agent has made", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return agent.Cleanup(cmd.Context(), cfg) },
	}, &cobra.Command{
		Use: "fail-back", Args: cobra.NoArgs,
		Short: "gives the uplink its addresses back while ovs-vswitchd does not run; a running agent moves them to the bridge again",
		RunE:  func(cmd *cobra.Command, _ []string) error { return agent.FailBack(cmd.Context(), cfg) },
	}, &cobra.Command{
		Use: "release", Args: cobra.NoArgs,
		Short: "removes the label from the Node that keeps Open vSwitch there until the node is cleaned",
		RunE:  func(cmd *cobra.Command, _ []string) error { return agent.Release(cmd.Context(), cfg) },
	}, inventoryCommand(), offloadCommand(&cfg), preflightCommand(&cfg), apiCommand(), askDriverCommand(), probeCommand())
	f := root.PersistentFlags()
	f.TextVar(&level, "log-level", level, "debug, info, warn or error")
	register(f, &cfg)
	return root
}

func register(f *pflag.FlagSet, c *agent.Config) {
	f.StringVar(&c.Mode, "mode", c.Mode, "what the node is: full, host (with a DPU), dpu, or auto: as its labels and devices say, for which each start asks the API server")
	f.StringVar(&c.Node.Node, "node-name", "", "name of the Node object")
	f.StringVar(&c.Kube.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	f.StringVar(&c.Kube.Server, "apiserver", "", "URL of the API server; empty: as the kubeconfig or the cluster says")
	f.StringVar(&c.OVSDB, "ovsdb", c.OVSDB, "the local Open_vSwitch database")
	f.StringVar(&c.Node.Remote, "sb", "", "the Southbound database as ovn-controller takes it, such as ssl:172.18.0.3:6642")
	f.StringVar(&c.Chassis.Dir, "chassis-dir", c.Chassis.Dir, "where key and certificate of the chassis are kept for ovn-controller, if --sb is an ssl endpoint")
	f.Var(parsed(&c.Node.Network.Subnets, "10.244.0.0/16/24", ipam.ParseClusterSubnets), "cluster-cidrs", "pod networks, each with the prefix length of a node")
	f.Var(parsed(&c.Node.Zone.ServiceSubnets, "", ipam.ParsePrefixes), "service-cidrs", "service networks, which the node's own processes reach too")
	f.Var(parsed(&c.Node.Zone.MasqueradeSubnets, prefixes(c.Node.Zone.MasqueradeSubnets), ipam.ParsePrefixes), "masquerade-cidrs", "addresses between a node and its gateway router, one subnet of each family; as the controller has them")
	f.IntVar(&c.Node.MTU, "mtu", 0, "MTU of pods; 0: the underlay's less the encapsulation")
	f.StringVar(&c.Node.GatewayInterface, "gateway-interface", "", "uplink, or a bridge that has it; empty: the interface of the default route")
	f.Var(parsed(&c.Node.NextHops, "", parseAddresses), "gateway-next-hop", "routers beyond the uplink, one of each family at most, with a comma between; empty: those of the default route at the uplink")
	f.BoolVar(&c.Node.Forwards, "uplink-forwarding", false, "the host forwards packets of others from its uplink back to the uplink, as a router or VPN gateway with one interface does; false: such packets are dropped")
	f.StringVar(&c.Node.SecondInterface, "exgw-interface", "", "NIC or bridge of a second external bridge, by which pods reach the networks there; empty: none")
	f.StringVar(&c.Node.Datapath, "datapath", c.Node.Datapath, "where OVS forwards: system (kernel) or netdev (userspace)")
	f.Var(parsed(&c.Node.EncapNetwork, "", parseNetwork), "encap-ip", "address at which tunnels end, or the network in which each node has this address; empty: the node's first address")
	f.StringVar(&c.Node.Checkpoint, "checkpoint", c.Node.Checkpoint, "file that holds the uplink's original state")
	f.StringVar(&c.VFs.KubeletDir, "kubelet-dir", c.VFs.KubeletDir, "where the kubelet has its sockets")
	f.StringVar(&c.VFs.UnitDir, "systemd-units", c.VFs.UnitDir, "where the host's systemd finds units, for OffloadPolicies that set up a NIC at boot; empty: the host has no systemd")
	f.Var(parsed(&c.VFs.Pools, "", parsePools), "vf-pools", "VFs to hand out, in the JSON of the sriov-network-device-plugin; empty: "+plugin.DefaultResource)
	f.Var(parsed(&c.VFs.Resources, "", parseResources), "vf-resources", "resources of other device plugins whose VFs become a pod's network, with commas between")
	f.Var(parsed(&c.VFs.Purposes.Management, "", vf.ParseSelector), "management-vf", "VF that is the node's own interface in its pod subnet, by PF, such as ens1f0#0; empty: none, and an internal port of OVS where that runs")
	f.Var(parsed(&c.VFs.Purposes.Gateway, "", vf.ParseSelector), "gateway-vf", "VF that has the node's address in place of the gateway bridge's own interface, by PF, such as ens1f0#1; empty: none")
	f.Var(parsed(&c.VFs.Purposes.DefaultPods, "", vf.ParseSelector), "reserved-vfs", "on a host with a DPU: VFs for pods that ask for none, by PF, such as 'ens1f0#0-15 ens1f1#0-15'")
	f.StringVar(&c.VFs.InitialNetns, "initial-netns", "", "path of the initial network namespace, where the node is another one")
	f.StringVar(&c.Metrics.Local, "metrics-address", c.Metrics.Local, "where /metrics, /healthz and /readyz are served to the node itself")
	f.StringVar(&c.Metrics.Secure, "secure-metrics-address", "", "where /metrics is served over TLS to accounts that may get it, such as :9412; empty: nowhere")
	f.StringVar(&c.Metrics.Health, "healthz-address", "", "where load balancers ask whether the node serves the cluster's services, such as :10256; empty: nowhere")
	f.StringVar(&c.Metrics.Flows.Address, "flows-address", "", "where flows are served over TLS to the relay, such as :9416; empty: nowhere")
	f.StringVar(&c.Metrics.Flows.Socket, "flows-socket", c.Metrics.Flows.Socket, "where flows are served to the node's root; empty: nowhere")
	f.Var(parsed(&c.Metrics.Detail, string(c.Metrics.Detail), offload.ParseDetail), "metrics-per-pod", "traffic with series of its own: off: the node's; namespace: also that of namespaces; outside: also that of pods with a VF and much traffic outside hardware; all: also that of all pods")
	f.BoolVar(&c.CNI.Native, "native-networks", false, "make the interfaces of a pod on further networks as well, without Multus")
	f.BoolVar(&c.Node.SecondaryOnly, "secondary-only", false, "give pods secondary networks only: another CNI plugin has the default network, and the node's interfaces are left alone")
	f.StringVar(&c.Install.Conf.Path, "cni-conf-dir", c.Install.Conf.Path, "where the runtime looks for networks")
	f.BoolVar(&c.Install.Conf.Managed, "manage-cni-conf", c.Install.Conf.Managed, "write and remove the configuration there; false: an administrator does")
	f.StringVar(&c.Install.BinDir, "cni-bin-dir", c.Install.BinDir, "where the runtime looks for plugins")
	f.StringVar(&c.Install.Plugin, "cni-plugin", c.Install.Plugin, "the plugin to install there")
	f.StringVar(&c.Install.Run, "host-run", c.Install.Run, "the host's /run, for files that keep its network services off the network's devices")
	f.StringVar(&c.Install.Proc, "host-proc", c.Install.Proc, "the host's /proc, for the processor time of ovs-vswitchd")
	f.StringVar(&c.Serves.Host, "dpu-host", "", "name of the Node whose DPU this is; empty: as external_ids:host-k8s-nodename of the local Open_vSwitch says")
	f.Var(parsed(&c.Serves.Controllers, "", dpu.ParseControllers), "dpu-host-controller", "the host's numbers in the NIC's switch, such as 1,2, for a DPU with several hosts or a host with several numbers")
}

// value is a flag whose text is parsed.
type value struct {
	text  string
	parse func(string) error
}

func (v *value) String() string              { return v.text }
func (v *value) Type() string                { return "string" }
func (v *value) Set(text string) (err error) { v.text = text; return v.parse(text) }

// parsed makes a flag of a text that becomes a value.
func parsed[T any](to *T, text string, parse func(string) (T, error)) pflag.Value {
	v := &value{parse: func(text string) (err error) { *to, err = parse(text); return err }}
	if text != "" {
		_ = v.Set(text)
	}
	return v
}

// parsePools gives nil for no text only: a list without pools is a choice, too.
func parsePools(text string) ([]plugin.Pool, error) {
	if text == "" {
		return nil, nil
	}
	pools, err := plugin.ParsePools([]byte(text))
	return append([]plugin.Pool{}, pools...), err
}

// parseNetwork takes an address for the network of this address alone.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); text == "" || err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

// parseAddresses takes one address of each family at most.
func parseAddresses(text string) (addrs []netip.Addr, _ error) {
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		addr, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(addrs, func(other netip.Addr) bool { return other.Is4() == addr.Is4() }) {
			return nil, fmt.Errorf("%q has several addresses of one family", text)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

func prefixes(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, prefix := range list {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}

func parseResources(text string) (resources []string, _ error) {
	for name := range strings.SplitSeq(text, ",") {
		resources = append(resources, strings.TrimSpace(name))
	}
	return slices.DeleteFunc(resources, func(name string) bool { return name == "" }), nil
}
