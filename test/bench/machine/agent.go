//go:build bench

package machine

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// Agent is the agent's part for the gateway bridge of a node without OVN: it takes the NIC over and keeps the bridge.
type Agent struct {
	NIC, Address, Checkpoint string
	// Boot is the id of the boot.
	Boot string
	// Outside is a probe of the external host.
	Outside func(context.Context) error
}

// Run keeps the node set up until stop is called, as a death of the agent does: nothing is taken back.
func (a Agent) Run(t testing.TB, ovs *OVS) (stop func()) {
	t.Helper()
	t.Setenv("OVS_RUNDIR", ovs.Run)
	schema, err := vswitch.ReplicaSchema()
	must(t, err)
	db, err := ovsdb.Open(t.Context(), ovsdb.Defaults([]string{ovs.DB()}, schema))
	must(t, err)
	setup, closeNS := a.setup(t, db)
	db.OnChange(func(owners []string) { setup.Changed(owners...) })
	db.OnForeign(func(tables []string) { setup.Foreign(tables...) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = setup.Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
		db.Close()
		closeNS()
	})
}

// Cleanup gives the NIC back.
func (a Agent) Cleanup(t testing.TB, ovs *OVS) {
	t.Helper()
	schema, err := vswitch.ReplicaSchema()
	must(t, err)
	db, err := ovsdb.Open(t.Context(), ovsdb.Defaults([]string{ovs.DB()}, schema))
	must(t, err)
	defer db.Close()
	setup, closeNS := a.setup(t, db)
	defer closeNS()
	must(t, setup.Cleanup(context.Background()))
}

func (a Agent) setup(t testing.TB, db *ovsdb.DB) (setup *gateway.Setup, closeNS func()) {
	t.Helper()
	ns, err := netdev.Open("")
	must(t, err)
	cfg := gateway.Defaults()
	cfg.Node, cfg.GatewayInterface, cfg.Checkpoint, cfg.Boot = "node", a.NIC, a.Checkpoint, a.Boot
	cfg.Network.Subnets = []contract.Subnet{{Prefix: netip.MustParsePrefix("10.244.0.0/16")}}
	cfg.Zone.ServiceSubnets = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	cfg.Remote = "unix:/run/ovn/absent.sock"
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: a.Address}}},
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	setup, err = gateway.New(cfg, gateway.Deps{
		Deps: node.Deps{
			Netns: node.Local{NS: ns}, DB: db,
			Node:     func() *corev1.Node { return object },
			Annotate: func(context.Context, *corev1.Node, map[string]string) error { return nil },
			Probes:   map[string]func(context.Context) error{"outside": a.Outside},
			Logger:   log, Registerer: prometheus.NewRegistry(),
		},
		Flows: openflow.Tables{Log: log},
		VF:    func() (*node.VF, error) { return nil, nil },
	})
	must(t, err)
	return setup, func() { _ = ns.Close() }
}

// Bears reports whether a link, and no other, has the address.
func Bears(link, address string) bool {
	out, err := exec.Command("ip", "-br", "-4", "addr", "show", "to", address).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return err == nil && len(lines) == 1 && strings.HasPrefix(lines[0], link+" ")
}
