package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// openDevices takes the inventory of the node's own namespace.
func (a *agent) openDevices() (err error) {
	if a.kernel, err = netdev.OpenDevices(a.host); err != nil {
		return err
	}
	a.inventory = &vf.Node{
		Sysfs: netdev.OpenSysfs(sysfs), Kernel: a.kernel, Links: a.host, Events: a.kernel, Names: vf.NewNames(netdev.PCINames),
	}
	a.devices = vf.NewLive(a.inventory, a.opts.log)
	return nil
}

// startStatus publishes what the node has to offload to, and measures whether
// traffic is there. Nothing waits for it, and nothing that pods need comes out
// of it.
func (a *agent) startStatus(ctx context.Context, group *errgroup.Group, client *api.Client) error {
	kinds, err := api.NewDynamic(a.opts.kube)
	if err != nil {
		return err
	}
	name := a.opts.node.Node
	publisher, err := a.publisher(client, kinds, nodeoffload.Whole, a.facts)
	if err != nil {
		return err
	}
	reporter := kube.NewReporter(ctx, client, a.view, "ovn-offload-agent")
	if err := a.openSampling(a.devices.Inventory, reporter, publisher.Sampled); err != nil {
		return err
	}
	policies, err := a.openPolicies(kinds, func() { publisher.Changed(); a.offer() })
	if err != nil {
		return err
	}
	a.devices.OnChange(func(vf.Inventory) { publisher.Changed() })
	a.functions.Ledger.OnChange(publisher.Changed)
	a.view.OnChange(func(owners ...contract.Owner) {
		if slices.Contains(owners, contract.NodeOwner(name)) {
			publisher.Changed()
			a.policy.Mark()
		}
	})
	a.runPolicies(ctx, group, policies)
	group.Go(func() error { return publisher.Run(ctx) })
	group.Go(func() error { return a.sampling.Run(ctx) })
	group.Go(func() error { return a.devices.Run(ctx) })
	return nil
}

func (a *agent) publisher(client *api.Client, kinds dynamic.Interface, part nodeoffload.Part, facts func() nodeoffload.Facts) (*nodeoffload.Publisher, error) {
	name := a.opts.node.Node
	cfg := nodeoffload.Defaults(name)
	cfg.Part, cfg.Logger, cfg.Registerer = part, a.opts.log, a.metrics
	return nodeoffload.New(cfg, nodeoffload.Deps{
		Client: kinds, Facts: facts, Label: kube.NewWriter(client).LabelNode,
		NodeObject: func() *corev1.Node { return a.view.Node(name) },
	})
}

func (a *agent) openSampling(inventory func() *vf.Inventory, events nodeoffload.Events, sampled func()) error {
	running, err := offload.LoadRunning(filepath.Join(filepath.Dir(a.opts.node.Checkpoint), "ovs-running.json"))
	if err != nil {
		return err
	}
	a.sampling = nodeoffload.NewSampling(nodeoffload.SamplingDeps{
		Switch: a.vswitchd(), DB: a.db, Inventory: inventory, Running: running,
		Events: events, Sampled: sampled, Logger: a.opts.log, Registerer: a.metrics,
	})
	return nil
}

// vswitchd is found beside the socket of its database.
func (a *agent) vswitchd() unixctl.Client {
	return unixctl.Client{Dir: filepath.Dir(strings.TrimPrefix(a.opts.ovsdb, "unix:")), Daemon: "ovs-vswitchd"}
}

// facts is what is known at this moment.
func (a *agent) facts() nodeoffload.Facts {
	facts := nodeoffload.Facts{
		Inventory: a.devices.Inventory(), Settings: a.sampling.Settings(), Report: a.sampling.Report(),
		Claims: a.functions.Ledger.Claims(), Damaged: a.functions.Ledger.Damaged(),
		Policies: a.policy.Results(), Reserved: a.reserved(),
	}
	if err := a.setup.GatewayVFProblem(); err != nil {
		facts.Problems = append(facts.Problems, err.Error())
	}
	return facts
}
