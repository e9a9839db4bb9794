// Command agent is the node's part: it sets the node up for the network, keeps
// it so, and answers the CNI plugin.
//
//	flags -> options -> wire: kube.View (own node), ovsdb.DB (local OVS), netdev
//	      -> node.Setup (gateway bridge, management port, annotations)
//	      -> cni.Server, once the node is set up; the CNI configuration last
//
// With the argument "cleanup" it takes back what it has done to the host.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// version is stamped at the build.
var version = "dev"

type options struct {
	kube    kube.ClientConfig
	node    node.Config
	ovsdb   string
	metrics string
	cni     cniOptions
	log     *slog.Logger
}

type cniOptions struct{ confDir, binDir, plugin, socket string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ovn-offload-agent:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	verb := "run"
	if len(args) > 0 && len(args[0]) > 0 && args[0][0] != '-' {
		verb, args = args[0], args[1:]
	}
	opts, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	switch verb {
	case "run":
		return run(ctx, opts)
	case "cleanup":
		return cleanup(ctx, opts)
	}
	return fmt.Errorf("unknown command %q: run or cleanup", verb)
}

func parse(args []string) (options, error) {
	opts := options{node: node.Defaults()}
	f := flag.NewFlagSet("ovn-offload-agent", flag.ContinueOnError)
	mode := f.String("mode", "full", "what the node is: full (others are not in this version)")
	f.StringVar(&opts.node.Node, "node-name", "", "name of the Node object")
	f.StringVar(&opts.kube.Kubeconfig, "kubeconfig", "", "file with the API server's address and credentials (default: the pod's service account)")
	f.StringVar(&opts.kube.Server, "apiserver", "", "URL of the API server, instead of what kubeconfig or service account say")
	f.StringVar(&opts.ovsdb, "ovsdb", "unix:/run/openvswitch/db.sock", "the local Open_vSwitch database")
	f.StringVar(&opts.node.Remote, "sb", "", "the Southbound database as ovn-controller takes it, such as ssl:172.18.0.3:6642")
	clusters := f.String("cluster-cidrs", "10.244.0.0/16/24", "pod networks of the cluster, each with the prefix length of a node")
	f.Func("service-cidrs", "service networks (not used in this version)", func(list string) error {
		_, err := ipam.ParsePrefixes(list)
		return err
	})
	f.IntVar(&opts.node.MTU, "mtu", 0, "MTU of pods (default: the underlay's less the encapsulation)")
	f.StringVar(&opts.node.GatewayInterface, "gateway-interface", "", "uplink, or a bridge that has it (default: the interface of the default route)")
	f.StringVar(&opts.node.Datapath, "datapath", opts.node.Datapath, "where OVS forwards: system (kernel) or netdev (userspace)")
	encap := f.String("encap-ip", "", "address of the tunnels' end (default: the node's)")
	f.StringVar(&opts.node.Checkpoint, "checkpoint", opts.node.Checkpoint, "file that holds the uplink's original state")
	f.StringVar(&opts.metrics, "metrics-address", "127.0.0.1:9410", "where /metrics, /healthz and /readyz are served")
	f.StringVar(&opts.cni.confDir, "cni-conf-dir", "/etc/cni/net.d", "where the runtime looks for networks")
	f.StringVar(&opts.cni.binDir, "cni-bin-dir", "/opt/cni/bin", "where the runtime looks for plugins")
	f.StringVar(&opts.cni.plugin, "cni-plugin", "/usr/local/bin/"+node.PluginName, "the plugin to install there")
	f.StringVar(&opts.cni.socket, "cni-socket", "", "where the plugin finds the agent (default: the plugin's own)")
	level := slog.LevelInfo
	f.TextVar(&level, "log-level", level, "debug, info, warn or error")
	json := f.Bool("log-json", false, "log as JSON")
	if err := f.Parse(args); err != nil {
		return opts, err
	}
	opts.kube.UserAgent = "ovn-offload-agent/" + version
	opts.log = logger(level, *json).With("node", opts.node.Node)
	return opts, opts.complete(*mode, *clusters, *encap)
}

func (o *options) complete(mode, clusters, encap string) error {
	if mode != "full" {
		return fmt.Errorf("mode %q is not in this version: only full is", mode)
	}
	subnets, err := ipam.ParseClusterSubnets(clusters)
	if err != nil {
		return err
	}
	for _, s := range subnets {
		o.node.ClusterSubnets = append(o.node.ClusterSubnets, s.Prefix)
	}
	if encap != "" {
		if o.node.EncapAddress, err = netip.ParseAddr(encap); err != nil {
			return fmt.Errorf("encap-ip: %w", err)
		}
	}
	return nil
}

func logger(level slog.Level, json bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}
