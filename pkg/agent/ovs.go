package agent

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/conntrack"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/redirect"
	"github.com/ovn-offload/ovn-offload/pkg/node/unmanaged"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// ovs is a node's own OVS, its set-up, and where its traffic is handled.
type ovs struct {
	*parts
	db       *ovsdb.DB
	chassis  *chassis.Client // nil: the Southbound asks for no certificate
	setup    *gateway.Setup
	sampling *nodeoffload.Sampling
	flows    *flowServer

	southbound *southbound
}

func openDB(ctx context.Context, cfg Config, metrics prometheus.Registerer) (*ovsdb.DB, error) {
	schema, err := vswitch.ReplicaSchema()
	if err != nil {
		return nil, err
	}
	dbc := ovsdb.Defaults([]string{cfg.OVSDB}, schema)
	dbc.Logger, dbc.Registerer = cfg.Logger, metrics
	return ovsdb.Open(ctx, dbc)
}

// setting is one of the local Open_vSwitch, "" when it is not set.
func setting(db *ovsdb.DB, key string) string {
	for _, row := range db.Table(vswitch.OpenvSwitchTable) {
		if settings, ok := row.(*vswitch.OpenvSwitch); ok {
			return settings.ExternalIDs[key]
		}
	}
	return ""
}

// joined says why packets do not pass between br-int and a bridge to a physical network.
func joined(db *ovsdb.DB) error {
	return node.SameDatapath(setting(db, node.BridgeMappings), db.Table(vswitch.BridgeTable), contract.IntegrationBridge)
}

// ovnVersion is a setting that the start script of ovn-controller writes.
const ovnVersion = "ovn-controller-version"

// versions are those of this process, the kernel, OVS and OVN.
func (o *ovs) versions() v1alpha1.Versions {
	v := o.parts.versions()
	for _, row := range o.db.Table(vswitch.OpenvSwitchTable) {
		if settings, ok := row.(*vswitch.OpenvSwitch); ok {
			v.OVN = settings.ExternalIDs[ovnVersion]
			if settings.OVSVersion != nil {
				v.OpenVSwitch = *settings.OVSVersion
			}
		}
	}
	return v
}

// onVersions calls changed when the version of OVS or OVN is another one.
func (o *ovs) onVersions(changed func()) {
	last := v1alpha1.Versions{}
	o.db.OnForeign(func(tables []string) {
		if now := o.versions(); slices.Contains(tables, vswitch.OpenvSwitchTable) && now != last {
			last = now
			changed()
		}
	})
	o.db.OnReconnect(changed)
}

// newOVS lets deps add to the set-up what only one kind of node has.
func newOVS(n *parts, db *ovsdb.DB, add func(*gateway.Deps)) (*ovs, error) {
	o := &ovs{parts: n, db: db}
	o.openChassis()
	o.southbound = newSouthbound(o.Config)
	n.remote.set(o.southbound.Ready)
	deps := gateway.Deps{
		Deps: o.nodeDeps(), VF: n.own.gateway, Flows: openflow.Tables{Log: n.Logger},
		Services:  func() (flows.Services, bool) { return n.services.ports(n.Node.Zone.MasqueradeSubnets) },
		Redirect:  redirect.New(node.Local{NS: n.netns}, n.Logger),
		NoNextHop: func(problem string) { n.report.Warn(contract.NodeOwner(n.Node.Node), "NoNextHop", problem) },
	}
	deps.Probes = probes(n.client, n.Node.Remote)
	add(&deps)
	var err error
	if o.setup, err = gateway.New(n.Node, deps); err != nil {
		return nil, err
	}
	n.services.changed = o.setup.ServicesChanged
	n.onLinks(func(inv vf.Inventory) string { return fmt.Sprint(deps.Eswitch()) }, o.setup.Mark)
	return o, nil
}

func (o *ovs) nodeDeps() node.Deps {
	deps := o.parts.nodeDeps()
	deps.DB = o.db
	return deps
}

// openChassis makes what keeps the certificate with which ovn-controller comes to the Southbound.
func (o *ovs) openChassis() {
	if !strings.Contains(o.Node.Remote, "ssl:") {
		return
	}
	cfg := o.Chassis
	cfg.SystemID = func() string { return setting(o.db, "system-id") }
	cfg.Logger, cfg.Registerer = o.Logger, o.metrics
	o.chassis = chassis.NewClient(o.client, cfg)
	o.ready.set(func() error {
		if err := o.chassis.Problem(); err != nil {
			return fmt.Errorf("%w: %w", errNotSetUp, err)
		}
		return errNotSetUp
	})
}

// follow subscribes the set-up to objects and rows. It also calls changed with owners whose rows or objects change.
func (o *ovs) follow(changed func(...contract.Owner)) {
	o.db.OnChange(func(names []string) {
		o.setup.Changed(names...)
		changed(parseOwners(names)...)
	})
	o.db.OnForeign(func(tables []string) {
		o.setup.Foreign(tables...)
		if o.chassis != nil && slices.Contains(tables, vswitch.OpenvSwitchTable) {
			o.chassis.Changed()
		}
	})
	o.db.OnReconnect(o.setup.Mark)
	o.view.OnChange(func(owners ...contract.Owner) {
		o.services.tell(o.setup, owners)
		changed(owners...)
	})
}

// start starts the parts in the order in which they need each other, and returns when the view is complete. The node's
// set-up does not wait for that: after a crash of OVS it may be what brings the way to the API server back.
func (o *ovs) start(ctx context.Context, group *errgroup.Group) error {
	o.keepUnmanaged(ctx)
	if err := o.captureLease(); err != nil {
		return err
	}
	if o.chassis != nil {
		group.Go(func() error { return o.chassis.Run(ctx) })
	}
	group.Go(func() error { return o.southbound.Run(ctx) })
	group.Go(func() error { return o.devices.Run(ctx) })
	group.Go(func() error { return o.sampling.Run(ctx) })
	group.Go(func() error { return o.flows.run(ctx) })
	group.Go(func() error { return o.setup.Run(ctx) })
	cfg := conntrack.Defaults()
	cfg.Bridge, cfg.Logger, cfg.Registerer = contract.IntegrationBridge, o.Logger, o.metrics
	ended := conntrack.New(cfg, conntrack.Deps{Switch: vswitchd(o.Config), Flows: openflow.Tables{Log: o.Logger}, DB: o.db})
	group.Go(func() error { return ended.Run(ctx) })
	if err := o.view.Start(ctx); err != nil {
		return err
	}
	o.services.synced.Store(true)
	o.setup.Mark()
	o.services.run(ctx, group)
	return nil
}

// busTimeout is how long the host's network services may take to read their files.
const busTimeout = 10 * time.Second

// keepUnmanaged keeps the host's network services off the devices of the network. Without it the node works until such
// a service changes a device.
func (o *ovs) keepUnmanaged(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	bridges, err := gateway.Bridges(o.Node, node.Local{NS: o.netns})
	if err == nil {
		err = unmanaged.Install(ctx, o.Install.Run, sysfs, bridges)
	}
	if err != nil {
		o.Logger.Warn("network services may configure devices of the network", "error", err)
	}
}

// awaitSetUp returns when the node is set up.
func (o *ovs) awaitSetUp(ctx context.Context) error {
	select {
	case <-o.setup.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startOnUplink starts what needs the uplink on its bridge.
func (o *ovs) startOnUplink(ctx context.Context, group *errgroup.Group) {
	o.keepUnmanaged(ctx) // the uplink may not have been there before
	group.Go(func() error { return o.followLease(ctx) })
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

// vswitchd is found beside the socket of its database.
func vswitchd(cfg Config) unixctl.Client {
	dir := filepath.Dir(strings.TrimPrefix(cfg.OVSDB, "unix:"))
	return unixctl.Client{Dir: dir, Daemon: "ovs-vswitchd", Proc: cfg.Install.Proc}
}

func (m *machine) newSampling(cfg Config, deps nodeoffload.SamplingDeps) (*nodeoffload.Sampling, error) {
	running, err := offload.LoadRunning(filepath.Join(filepath.Dir(cfg.Node.Checkpoint), "ovs-running.json"))
	if err != nil {
		return nil, err
	}
	deps.Switch, deps.Running, deps.Logger = vswitchd(cfg), running, cfg.Logger
	deps.Recirculation = func() (shared, known bool) { return netdev.RecirculationShared(m.netns) }
	return nodeoffload.NewSampling(deps), nil
}

// sample measures where the traffic of the node's pods is handled.
func (o *ovs) sample(sampled func()) (err error) {
	if err := o.openFlows(); err != nil {
		return err
	}
	o.sampling, err = o.newSampling(o.Config, nodeoffload.SamplingDeps{
		DB: o.db, Inventory: o.devices.Inventory, Events: o.report, Sampled: sampled, Detail: o.Metrics.Detail, Registerer: o.metrics,
	})
	return err
}

// probes reach the API server and the Southbound databases.
func probes(client *api.Client, remotes string) map[string]func(context.Context) error {
	server := client.Server
	port := server.Port()
	if port == "" {
		port = "443"
	}
	targets := map[string]string{"API server": net.JoinHostPort(server.Hostname(), port)}
	for remote := range strings.SplitSeq(remotes, ",") {
		if _, address, ok := strings.Cut(remote, ":"); ok {
			targets["Southbound database at "+address] = address
		}
	}
	out := map[string]func(context.Context) error{}
	for name, address := range targets {
		out[name] = node.Dial(address)
	}
	return out
}
