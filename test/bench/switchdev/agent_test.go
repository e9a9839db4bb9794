//go:build bench

package switchdev

import (
	"context"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conntrack"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// Parts of the agent, joined as cmd/agent joins them, for nodes that are namespaces.

// gateway keeps the gateway bridge of a machine that is the network side of a Node.
func (p *product) gateway(n *ovsNode, of string) {
	t := p.t
	t.Helper()
	batch(t, n.name, "route add default via "+outsides()[0], "route add default via "+outsides()[1])
	host, err := netdev.Open("/run/netns/" + n.name)
	ok(t, err)
	t.Cleanup(func() { _ = host.Close() })
	view, err := kube.NewNodeView(apitest.Client(p.server), of)
	ok(t, err)
	db := n.database()
	cfg := gateway.Defaults()
	cfg.Node, cfg.Network.Subnets, cfg.Zone.ServiceSubnets = of, plan().Cluster, plan().Services
	cfg.Remote, cfg.GatewayInterface = p.remote("sb"), n.uplink
	cfg.MTU, cfg.Checkpoint = 1400, filepath.Join(n.dir, "node.json")
	deps := node.Deps{
		Netns: node.Local{NS: host}, DB: db,
		Node:     func() *corev1.Node { return view.Node(of) },
		Annotate: kube.NewWriter(apitest.Client(p.server)).AnnotateNode,
		Logger:   p.log(), Registerer: prometheus.NewRegistry(),
	}
	setup, err := gateway.New(cfg, gateway.Deps{
		Deps: deps, Flows: n.bridges(p.cluster),
		Services: func() (flows.Services, bool) {
			return flows.PortsOf(view.Services(), view.PodsOnNode(of), flows.Elsewhere{}), true
		},
	})
	ok(t, err)
	db.OnChange(func(owners []string) { setup.Changed(owners...) })
	db.OnForeign(func(tables []string) { setup.Foreign(tables...) })
	view.OnChange(func(owners ...contract.Owner) {
		for _, owner := range owners {
			setup.Changed(owner.String())
			if owner.Kind == contract.KindService || owner.Kind == contract.KindPod {
				setup.ServicesChanged()
			}
		}
	})
	ok(t, view.Start(t.Context()))
	p.background(setup.Run)
	select {
	case <-setup.Done():
	case <-time.After(2 * patience):
		t.Fatalf("%s is not set up: %v", n.name, setup.Ready())
	}
	n.ports = append(n.ports, offload.Port{Name: n.uplink, Device: offload.Device{Representor: true, HWTC: true}})
}

// keep ends connections.
func (c *cluster) keep() {
	c.t.Helper()
	for _, n := range c.nodes {
		cfg := conntrack.Defaults()
		cfg.Share = 0 // a look takes seconds here
		cfg.Logger, cfg.Registerer = c.log(), prometheus.NewRegistry()
		c.background(conntrack.New(cfg, conntrack.Deps{Switch: n.vswitchd(), Flows: n.bridges(c), DB: n.database()}).Run)
	}
}

func (n *ovsNode) database() *ovsdb.DB {
	n.Helper()
	schema, err := vswitch.ReplicaSchema()
	ok(n, err)
	db, err := ovsdb.Open(n.Context(), ovsdb.Defaults([]string{"unix:" + n.dir + "/db.sock"}, schema))
	ok(n, err)
	n.Cleanup(db.Close)
	return db
}

func (n *ovsNode) bridges(c *cluster) bridges { return bridges{openflow.Tables{Log: c.log()}, n.dir} }

// bridges are those of a node; their sockets are not at the usual place.
type bridges struct {
	openflow.Tables
	dir string
}

func (b bridges) socket(bridge string) string { return filepath.Join(b.dir, bridge+".mgmt") }

func (b bridges) Replace(ctx context.Context, bridge string, flows []string) error {
	return b.Tables.Replace(ctx, b.socket(bridge), flows)
}

func (b bridges) Dump(ctx context.Context, bridge, match string, flow func(string)) error {
	return b.Tables.Dump(ctx, b.socket(bridge), match, flow)
}

func (b bridges) Groups(ctx context.Context, bridge, id string, group func(string)) error {
	return b.Tables.Groups(ctx, b.socket(bridge), id, group)
}

func (b bridges) Watch(ctx context.Context, bridge string, changed func(flow string)) {
	b.Tables.Watch(ctx, b.socket(bridge), changed)
}
