package agent

import (
	"cmp"
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/lease"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/node/physnet"
	"github.com/ovn-offload/ovn-offload/pkg/node/redirect"
	"github.com/ovn-offload/ovn-offload/pkg/node/unmanaged"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	vfsetup "github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// Cleanup takes back what an agent has done to its node. A host with a DPU has no Open vSwitch.
func Cleanup(ctx context.Context, cfg Config) error {
	if err := cfg.Install.Conf.Remove(); err != nil {
		return err
	}
	if cfg.Mode == ModeHost {
		return errors.Join(cleanHost(ctx, cfg), unmanaged.Remove(ctx, cfg.Install.Run))
	}
	setup, db, err := standalone(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(vfsetup.RemoveUnits(cfg.VFs.UnitDir), physnet.Remove(ctx, db), setup.Cleanup(ctx), unmanaged.Remove(ctx, cfg.Install.Run), lease.Forget(leaseFile(cfg)))
}

// cleanHost restores the VF that carries the management port.
func cleanHost(ctx context.Context, cfg Config) error {
	netns, err := netdev.Open("")
	if err != nil {
		return err
	}
	defer func() { _ = netns.Close() }()
	return management.NewPort(cfg.Node.Config, node.Deps{Netns: node.Local{NS: netns}, Logger: cfg.Logger}, nil).Restore(ctx)
}

// FailBack takes back only what stops working without ovs-vswitchd.
func FailBack(ctx context.Context, cfg Config) error {
	setup, _, err := standalone(ctx, cfg)
	if err != nil {
		return err
	}
	return setup.FailBack(ctx)
}

// standalone is a set-up that needs neither the API server nor the Node object.
func standalone(ctx context.Context, cfg Config) (*gateway.Setup, *ovsdb.DB, error) {
	cfg.Node.Remote = cmp.Or(cfg.Node.Remote, "none") // needed by a set-up only
	netns, err := netdev.Open("")
	if err != nil {
		return nil, nil, err
	}
	if cfg.Node.Boot, err = bootID(); err != nil {
		return nil, nil, err
	}
	metrics := prometheus.NewRegistry()
	db, err := openDB(ctx, cfg, metrics)
	if err != nil {
		return nil, nil, err
	}
	deps := node.Deps{
		Netns: node.Local{NS: netns}, DB: db, Node: func() *corev1.Node { return nil }, Logger: cfg.Logger, Registerer: metrics,
	}
	setup, err := gateway.New(cfg.Node, gateway.Deps{
		Deps: deps, Management: management.NewPort(cfg.Node.Config, deps, nil),
		Redirect: redirect.New(node.Local{NS: netns}, cfg.Logger), Flows: openflow.Tables{Log: cfg.Logger},
	})
	return setup, db, err
}

// ReadOffload says where the traffic of the node's pods is handled now. It needs OVS and
// no cluster, and changes nothing.
func ReadOffload(ctx context.Context, cfg Config) (offload.Report, error) {
	m, err := openMachine(sysfs, cfg.Logger)
	if err != nil {
		return offload.Report{}, err
	}
	defer m.close()
	metrics := prometheus.NewRegistry()
	db, err := openDB(ctx, cfg, metrics)
	if err != nil {
		return offload.Report{}, err
	}
	defer db.Close()
	inv, err := m.inventory.Read()
	if err != nil {
		return offload.Report{}, err
	}
	sampling, err := m.newSampling(cfg, nodeoffload.SamplingDeps{
		DB: db, Inventory: func() *vf.Inventory { return &inv }, Registerer: metrics,
	})
	if err != nil {
		return offload.Report{}, err
	}
	return sampling.Read(ctx)
}
