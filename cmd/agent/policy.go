package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

const (
	sysfs      = "/sys"
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

func bootID() (string, error) {
	id, err := os.ReadFile(bootIDFile)
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// nics changes devices through the kernel.
type nics struct{ *netdev.Devices }

func (nics) SetVFs(address string, n int) error { return netdev.SetVFs(sysfs, address, n) }

// openPolicies makes what sets NICs up. changed is called when its results are
// other ones.
func (a *agent) openPolicies(client dynamic.Interface, changed func()) (*setup.Policies, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	policies, err := setup.NewPolicies(client, a.opts.log, func() { a.policy.Mark() })
	if err != nil {
		return nil, err
	}
	file := filepath.Join(filepath.Dir(a.opts.node.Checkpoint), "offload-policy.json")
	a.policy, err = setup.New(file, boot, setup.Deps{
		Policies:   policies.List,
		NodeObject: func() *corev1.Node { return a.view.Node(a.opts.node.Node) },
		Inventory:  a.inventory.Read, InUse: a.users, Hold: a.hold,
		NIC:     nics{a.kernel},
		OVS:     setup.Vswitchd{Client: a.vswitchd(), DB: a.db, Observed: a.sampling.Observed},
		Changed: changed, Logger: a.opts.log, Registerer: a.metrics,
	})
	return policies, err
}

func (a *agent) runPolicies(ctx context.Context, group *errgroup.Group, policies *setup.Policies) {
	a.devices.OnChange(func(vf.Inventory) { a.policy.Mark() })
	group.Go(func() error { return a.policy.Run(ctx) })
	group.Go(func() error { return policies.Run(ctx, a.policy.Mark) })
}
