package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube/token"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// hostKey is the contract's setting of whose DPU this is.
const hostKey = "host-k8s-nodename"

// dpuNode is the agent of a DPU: the network side of its host's Node.
type dpuNode struct {
	*ovs
	ports          *dpu.Ports
	lease          *dpu.Heartbeat
	managementPort *management.Runner
	traffic        *nodeoffload.Publisher
	hwOffload      *setup.DPUSwitch
	token          *token.Renewer
	ready          func() error
}

// DPU makes the agent of a DPU, which gives the pods of its host their ports. The client is
// of the host's cluster.
func DPU(ctx context.Context, p *Process) (Agent, error) {
	db, err := openDB(ctx, p.Config, p.metrics)
	if err != nil {
		return nil, err
	}
	rc, err := p.Kube.REST()
	if err != nil {
		return nil, err
	}
	account := token.Defaults(rc)
	if err := p.findHost(db, account); err != nil {
		return nil, err
	}
	n, err := newParts(ctx, p)
	if err != nil {
		return nil, err
	}
	d := &dpuNode{token: n.renewer(account)}
	if d.ovs, err = newOVS(n, db, func(deps *gateway.Deps) { deps.Eswitch = n.eswitch }); err != nil { // the management port is apart
		return nil, err
	}
	bridge := &plug.OVS{DB: db, Bridge: contract.IntegrationBridge, Host: n.netns, Functions: n.kernel, Boot: n.Node.Boot}
	cfg := dpu.Defaults()
	cfg.Serves, cfg.Logger, cfg.Registerer = p.Serves, p.Logger, p.metrics
	if d.ports, err = dpu.NewPorts(cfg, dpu.Deps{
		Pods: n.view, Node: n.node, Plugger: bridge, MTU: d.setup.MTU, Annotate: n.writer.AnnotatePod, Warn: n.report.Warn,
	}); err != nil {
		return nil, err
	}
	d.ready = func() error { return cmp.Or(bridge.Ready(), joined(db), d.setup.Ready(), d.ports.Problem()) }
	d.lease = &dpu.Heartbeat{
		Client: p.client, Host: p.Serves.Host, Chassis: setting(db, "system-id"), Period: dpu.LeasePeriod, Logger: p.Logger,
		Node: n.node, Problem: d.ready, MTU: d.setup.MTU,
	}
	n.devices.OnChange(d.ports.SetInventory)
	if err := d.openManagement(); err != nil { // after the ports' own listener for devices
		return nil, err
	}
	if d.traffic, err = n.publisher(nodeoffload.Traffic, d.facts); err != nil {
		return nil, err
	}
	d.onVersions(d.traffic.Changed)
	n.devices.OnChange(func(vf.Inventory) { d.traffic.Changed() })
	db.OnReconnect(func() { d.ports.Mark(); d.managementPort.Mark() })
	d.follow(func(owners ...contract.Owner) { d.ports.Changed(owners...); d.managementPort.Changed(owners...) })
	if err := d.sample(d.traffic.Sampled); err != nil {
		return nil, err
	}
	d.openHWOffload()
	return d, nil
}

// openHWOffload makes what keeps hw-offload set in the Open vSwitch of the DPU's system.
func (d *dpuNode) openHWOffload() {
	owner := contract.NodeOwner(d.Node.Node)
	d.hwOffload = setup.NewDPUSwitch(setup.DPUSwitchDeps{
		OVS: setup.Vswitchd{
			Client: vswitchd(d.Config), DB: d.db, Observed: d.sampling.Observed, Links: d.netns, Services: setup.Systemd{Run: d.Install.Run},
		},
		Warn:    func(reason, message string) { d.report.Warn(owner, reason, message) },
		Note:    func(reason, message string) { d.report.Note(owner, reason, message) },
		Changed: d.traffic.Changed, Logger: d.Logger,
	})
	d.db.OnForeign(func(tables []string) {
		if slices.Contains(tables, vswitch.OpenvSwitchTable) {
			d.hwOffload.Mark()
		}
	})
	d.db.OnReconnect(d.hwOffload.Mark)
}

// findHost asks the flags, the local database, in which the host's name is written when the
// DPU is installed, and the account of the DPU, which has the name of the host.
func (p *Process) findHost(db *ovsdb.DB, account token.Config) error {
	p.Serves.Host = cmp.Or(p.Serves.Host, setting(db, hostKey))
	if claims, err := account.Claims(); p.Serves.Host == "" && err == nil && claims.Account.Namespace == chassis.DPUNamespace {
		p.Serves.Host = claims.Account.Name
	}
	if p.Serves.Host == "" {
		return fmt.Errorf("the host of this DPU is not known: set --dpu-host or external_ids:%s of the local Open_vSwitch, or run kubectl offload dpu join", hostKey)
	}
	p.Node.Node = p.Serves.Host
	p.Logger = p.Logger.With("host", p.Serves.Host)
	return nil
}

// renewer keeps the token of the DPU's account current.
func (n *parts) renewer(cfg token.Config) *token.Renewer {
	cfg.Request, cfg.Logger, cfg.Registerer = n.client.Token, n.Logger, n.metrics
	cfg.Warn = func(message string) { n.report.Warn(contract.NodeOwner(n.Node.Node), "DPUTokenExpires", message) }
	return token.NewRenewer(cfg)
}

// eswitch tells the DPU's set-up what the ports of NICs lead to. The set-up waits for the
// answer, because the gateway bridge depends on it.
func (n *parts) eswitch() (gateway.Eswitch, error) {
	inv := n.devices.Inventory()
	if inv == nil {
		return gateway.Eswitch{DPU: true}, fmt.Errorf("%w: the devices of the DPU are not known yet", reconcile.ErrNotReady)
	}
	out := gateway.Eswitch{DPU: true, Functions: inv.RepresentorNames()}
	out.Uplinks, out.Guests = dpu.Links(*inv, n.Serves)
	return out, nil
}

func (d *dpuNode) openManagement() (err error) {
	owner := contract.NodeOwner(d.Node.Node)
	link := d.ports.ManagementLink(func(reason string) { d.report.Warn(owner, "ManagementPortRefused", "the DPU: "+reason) })
	if d.managementPort, err = d.management(d.nodeDeps(), func() (*node.VF, error) {
		name, err := link()
		if err != nil || name == "" { // the DPU itself has the management port
			return nil, err
		}
		return &node.VF{Representor: name}, nil
	}, d.setup.MTU); err != nil {
		return err
	}
	d.onLinks(func(vf.Inventory) string {
		if representor, err := d.ports.Management(); err == nil && representor != nil {
			return fmt.Sprint(representor.Name, representor.Index)
		}
		return ""
	}, d.managementPort.Mark)
	return nil
}

// facts says where the traffic of the host's pods is handled, and which problems the DPU has.
func (d *dpuNode) facts() nodeoffload.Facts {
	facts := nodeoffload.Facts{
		Versions: d.versions(), Inventory: d.devices.Inventory(), Settings: d.sampling.Settings(), Report: d.sampling.Report(), Endpoint: d.flows.endpoint(),
	}
	for _, err := range []error{d.hwOffload.Problem(), d.setup.NextHopProblem()} {
		if err != nil {
			facts.Problems = append(facts.Problems, err.Error())
		}
	}
	return facts
}

// Run is Agent's.
func (d *dpuNode) Run(ctx context.Context) error {
	if err := d.lease.Alone(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.lease.Run(ctx) })
	group.Go(func() error { return d.token.Run(ctx) })
	group.Go(func() error { return d.traffic.Run(ctx) })
	group.Go(func() error {
		if err := d.start(ctx, group); err != nil {
			return err
		}
		if err := d.awaitSetUp(ctx); err != nil {
			return err
		}
		d.startOnUplink(ctx, group)
		group.Go(func() error { return d.hwOffload.Run(ctx) }) // after the set-up, whose look at the uplink a restart of OVS would disturb
		group.Go(func() error { return d.managementPort.Run(ctx) })
		d.Process.ready.set(d.ready)
		d.Logger.Info("DPU is ready for the pods of its host")
		return d.ports.Run(ctx)
	})
	return group.Wait()
}
