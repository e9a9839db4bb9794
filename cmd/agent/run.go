package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/knftables"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/conntrack"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/cnifiles"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/node/svchealth"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// agent is the wired parts.
type agent struct {
	opts      options
	metrics   *prometheus.Registry
	host      *netdev.NS
	db        *ovsdb.DB
	view      *kube.NodeView
	pods      *cni.Pods
	setup     *gateway.Setup
	health    *svchealth.Server
	dpu       *dpu.Watch // on a host with one
	kernel    *netdev.Devices
	inventory *vf.Node
	devices   *vf.Live
	functions *cni.Functions
	offer     func() // VFs to the kubelet
	uplink    plugin.Uplink
	podMTU    atomic.Int64 // on a host with a DPU; 0 while it is not known
	server    atomic.Pointer[cni.Server]
	policy    *setup.Runner
	chassis   *chassis.Client // nil: the Southbound asks for no certificate
	sampling  *nodeoffload.Sampling
	synced    atomic.Bool // the view is complete
	// elsewhere are the services with policy Local without an endpoint here; nil before
	// the first look at their endpoints.
	elsewhere atomic.Pointer[map[types.NamespacedName]bool]
	// anyHostPorts says that the bridge has had host ports of pods to serve.
	anyHostPorts atomic.Bool
	// ready is set before serving is.
	ready   func() error
	serving atomic.Bool
}

func run(ctx context.Context, opts options) error {
	a := &agent{opts: opts, metrics: prometheus.NewRegistry()}
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	client, err := api.New(opts.kube)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.serveHTTP(ctx, client) })
	group.Go(func() error { return a.work(ctx, group, client) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (a *agent) work(ctx context.Context, group *errgroup.Group, client *api.Client) (err error) {
	if a.opts.mode == modeAuto {
		if a.opts.mode, err = a.detect(ctx, client); err != nil {
			return err
		}
		a.opts.log.Info("mode chosen", "mode", a.opts.mode)
	}
	if a.opts.mode == modeHost {
		return a.workHost(ctx, group, client)
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	a.startChassis(ctx, group, client)
	if a.opts.mode == modeDPU {
		return a.workDPU(ctx, group, client)
	}
	if err := a.prepare(client); err != nil {
		return err
	}
	if err := a.startFunctions(ctx, group); err != nil {
		return err
	}
	a.onCarrier(a.carrierLinks, a.setup.Mark)
	if err := a.startStatus(ctx, group, client); err != nil {
		return err
	}
	if err := a.follow(ctx, group, func(...contract.Owner) {}); err != nil {
		return err
	}
	server, err := a.openServer()
	if err != nil {
		return err
	}
	group.Go(func() error { return server.RunSweeps(ctx) })
	if err := a.settled(ctx); err != nil {
		return err
	}
	return a.serve(ctx, server)
}

// prepare makes the parts that watch the API and set the node up.
func (a *agent) prepare(client *api.Client) (err error) {
	if a.view, err = kube.NewNodeView(client, a.opts.node.Node); err != nil {
		return err
	}
	a.pods = cni.NewPods(a.view.Pod)
	a.openHealthChecks(client)
	if err := a.openDevices(); err != nil {
		return err
	}
	writer := kube.NewWriter(client)
	deps := gateway.Deps{
		Deps: node.Deps{
			Netns: node.Local{NS: a.host}, DB: a.db,
			Node:     func() *corev1.Node { return a.view.Node(a.opts.node.Node) },
			Annotate: writer.AnnotateNode,
			Probes:   probes(client, a.opts.node.Remote),
			Logger:   a.opts.log, Registerer: a.metrics,
		},
		VF: a.gatewayFunction, Eswitch: a.eswitch,
		Flows:    openflow.Tables{Log: a.opts.log},
		Services: a.services, NFT: a.nft(), Forget: a.host.Forget,
	}
	if a.opts.mode != modeDPU { // on a DPU it is kept apart
		deps.Management = management.NewPort(a.opts.node.Config, deps.Deps, a.carrier)
	}
	a.setup, err = gateway.New(a.opts.node, deps)
	if err == nil {
		a.onCarrier(a.eswitchLinks, a.setup.Mark)
	}
	return err
}

// follow starts the parts in the order in which they need each other, and
// returns when the view is complete. The node's set-up does not wait for that:
// after a crash of OVS it may be what brings the way to the API server back.
// Owners whose rows or objects change are told to changed as well.
func (a *agent) follow(ctx context.Context, group *errgroup.Group, changed func(...contract.Owner)) error {
	a.db.OnChange(func(names []string) {
		a.setup.Changed(names...)
		changed(parseOwners(names)...)
	})
	a.db.OnForeign(func(tables []string) {
		a.setup.Foreign(tables...)
		if a.chassis != nil && slices.Contains(tables, vswitch.OpenvSwitchTable) {
			a.chassis.Changed()
		}
	})
	a.db.OnReconnect(a.setup.Mark)
	a.view.OnChange(func(owners ...contract.Owner) {
		a.pods.Changed(owners...)
		for _, owner := range owners {
			a.setup.Changed(owner.String())
			if owner.Kind == contract.KindService || owner.Kind == kube.KindServiceCIDR || owner.Kind == contract.KindPod && a.onBridge(owner) {
				a.setup.ServicesChanged()
			}
		}
		changed(owners...)
	})
	group.Go(func() error { return a.setup.Run(ctx) })
	group.Go(func() error { return a.connections().Run(ctx) })
	if err := a.view.Start(ctx); err != nil {
		return err
	}
	a.synced.Store(true)
	a.setup.Mark()
	group.Go(func() error { return a.health.Run(ctx) })
	return nil
}

// startChassis keeps the certificate with which ovn-controller comes to the Southbound.
func (a *agent) startChassis(ctx context.Context, group *errgroup.Group, client *api.Client) {
	if !strings.Contains(a.opts.node.Remote, "ssl:") {
		return
	}
	cfg := a.opts.chassis
	cfg.SystemID = func() string { return a.setting("system-id") }
	cfg.Logger, cfg.Registerer = a.opts.log, a.metrics
	a.chassis = chassis.NewClient(client, cfg)
	group.Go(func() error { return a.chassis.Run(ctx) })
}

// settled returns when the node is set up.
func (a *agent) settled(ctx context.Context) error {
	select {
	case <-a.setup.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connections ends those whose endpoint has left.
func (a *agent) connections() *conntrack.Keeper {
	cfg := conntrack.Defaults()
	cfg.Bridge, cfg.Logger, cfg.Registerer = contract.IntegrationBridge, a.opts.log, a.metrics
	return conntrack.New(cfg, conntrack.Deps{Switch: a.vswitchd(), Flows: openflow.Tables{Log: a.opts.log}, DB: a.db})
}

// parseOwners leaves out what others own.
func parseOwners(names []string) []contract.Owner {
	var owners []contract.Owner
	for _, name := range names {
		if owner, err := contract.ParseOwner(name); err == nil {
			owners = append(owners, owner)
		}
	}
	return owners
}

// services are not known before the view is complete, and which of them have endpoints here.
func (a *agent) services() (flows.Services, bool) {
	elsewhere := a.elsewhere.Load()
	if !a.synced.Load() || elsewhere == nil {
		return flows.Services{}, false
	}
	pods := a.view.Pods()
	a.anyHostPorts.Store(slices.ContainsFunc(pods, flows.HasHostPorts))
	ports := flows.PortsOf(a.view.Services(), pods, flows.Elsewhere{Services: *elsewhere, Masquerade: a.opts.node.Zone.MasqueradeSubnets})
	ports.Subnets = a.view.ServiceSubnets()
	return ports, true
}

// onBridge says that the bridge has to do with a pod: it has host ports, or is
// gone and may have had some.
func (a *agent) onBridge(owner contract.Owner) bool {
	pod := a.view.Pod(owner.Namespace, owner.Name)
	if pod == nil || !contract.WantsNetwork(pod) {
		return a.anyHostPorts.Load()
	}
	return flows.HasHostPorts(pod)
}

// nft is nil on a kernel without nftables: all that it costs is the node's own
// way to node ports at the node.
func (a *agent) nft() knftables.Interface {
	table, err := knftables.New(knftables.InetFamily, gateway.RedirectTable)
	if err != nil {
		a.opts.log.Warn("no nftables: processes of the node do not reach node ports at the node", "error", err)
		return nil
	}
	return table
}

func (a *agent) open(ctx context.Context) (err error) {
	if a.host, err = netdev.Open(""); err != nil {
		return err
	}
	schema, err := vswitch.ReplicaSchema()
	if err != nil {
		return err
	}
	cfg := ovsdb.Defaults([]string{a.opts.ovsdb}, schema)
	cfg.Logger, cfg.Registerer = a.opts.log, a.metrics
	a.db, err = ovsdb.Open(ctx, cfg)
	return err
}

func (a *agent) openServer() (*cni.Server, error) {
	cfg := a.opts.cni
	cfg.MTU = a.setup.MTU
	bridge := &cni.OVS{DB: a.db, Bridge: contract.IntegrationBridge, Host: a.host}
	a.ready = func() error { return cmp.Or(bridge.Ready(), a.setup.Ready()) }
	server, err := cni.NewServer(cfg, cni.Deps{
		Switch: bridge, Pods: a.pods, Host: a.host, OpenNS: cni.OpenNS, Functions: a.functions, Ready: a.ready,
		OnNode: func() []*corev1.Pod { return a.view.PodsOnNode(a.opts.node.Node) },
	}, a.opts.log, a.metrics)
	if err != nil {
		return nil, err
	}
	a.db.OnReconnect(server.Repair)
	a.server.Store(server)
	return server, nil
}

// serve tells the runtime of the network only when the plugin would find it.
func (a *agent) serve(ctx context.Context, server *cni.Server) error {
	if err := server.Listen(); err != nil {
		return err
	}
	if err := cnifiles.InstallPlugin(a.opts.install.plugin, a.opts.install.binDir); err != nil {
		return err
	}
	if err := cnifiles.WriteConf(a.opts.install.confDir); err != nil {
		return err
	}
	a.serving.Store(true)
	a.opts.log.Info("node is ready for pods")
	return server.Run(ctx)
}

func cleanup(ctx context.Context, opts options) error {
	if err := cnifiles.RemoveConf(opts.install.confDir); err != nil {
		return err
	}
	setup, err := alone(ctx, opts)
	if err != nil {
		return err
	}
	return setup.Cleanup(ctx)
}

func failBack(ctx context.Context, opts options) error {
	setup, err := alone(ctx, opts)
	if err != nil {
		return err
	}
	return setup.FailBack(ctx)
}

// alone is a set-up that needs neither the API server nor the Node object.
func alone(ctx context.Context, opts options) (*gateway.Setup, error) {
	opts.node.Remote = cmp.Or(opts.node.Remote, "none") // needed by a set-up only
	a := &agent{opts: opts, metrics: prometheus.NewRegistry()}
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	deps := node.Deps{
		Netns: node.Local{NS: a.host}, DB: a.db, Node: func() *corev1.Node { return nil }, Logger: opts.log, Registerer: a.metrics,
	}
	return gateway.New(opts.node, gateway.Deps{
		Deps: deps, Management: management.NewPort(opts.node.Config, deps, nil),
		NFT: a.nft(), Forget: a.host.Forget, Flows: openflow.Tables{Log: opts.log},
	})
}
