package agent

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/health"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/node/missing"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// full is the agent of a node with its own OVS.
type full struct {
	*ovs
	vfs       *podVFs
	policies  *setup.Policies
	nics      *setup.Runner
	publisher *nodeoffload.Publisher
	server    *cni.Server
	ready     func() error
	label     *reconcile.Single
	unready   *health.Reason
	physical  *physicalNetworks
	absence   unixctl.Absence // of ovs-vswitchd
	// serving says that pods may have got their network.
	serving atomic.Bool
}

// absentAfter is longer than a restart of ovs-vswitchd takes whose image is at hand: flows of the kernel's datapath and
// of the NIC go on meanwhile. It is shorter than the time after which a Node is NotReady.
const absentAfter = 10 * time.Second

// Full makes the agent of a node with its own OVS.
func Full(ctx context.Context, p *Process) (Agent, error) {
	n, err := newParts(ctx, p)
	if err != nil {
		return nil, err
	}
	db, err := openDB(ctx, p.Config, p.metrics)
	if err != nil {
		return nil, err
	}
	f := &full{label: n.labelMode(ModeFull), absence: unixctl.Absence{Runs: vswitchd(n.Config).Runs, After: absentAfter}}
	f.unready = &health.Reason{Pause: health.Pause, Changed: func() { f.publisher.Changed() }, Warn: func(reason string) {
		n.report.Warn(contract.NodeOwner(n.Node.Node), "NodeNotSetUp", "the network of this node is not set up: "+reason)
	}}
	if f.ovs, err = newOVS(n, db, func(deps *gateway.Deps) {
		deps.Node, deps.Readiness = n.labelled(ModeFull), f.unready.Set
		deps.SwitchAbsent = f.absence.Absent
		deps.Management = management.NewPort(n.Node.Config, deps.Deps, n.own.management)
		deps.Eswitch = func() (gateway.Eswitch, error) {
			inv := n.known()
			return gateway.Eswitch{Functions: inv.RepresentorNames()}, nil
		}
	}); err != nil {
		return nil, err
	}
	if f.vfs, err = newPodVFs(n, plugin.OwnUplink, plugin.DefaultPools()); err != nil {
		return nil, err
	}
	n.onLinks(n.own.links, f.setup.Mark)
	if f.publisher, err = f.vfs.publisher(nodeoffload.Whole, f.facts); err != nil {
		return nil, err
	}
	f.onVersions(f.publisher.Changed)
	if err := f.sample(f.publisher.Sampled); err != nil {
		return nil, err
	}
	if err := f.openPolicies(); err != nil {
		return nil, err
	}
	if f.physical, err = f.newPhysicalNetworks(f.publisher.Changed); err != nil {
		return nil, err
	}
	if err := f.openServer(); err != nil {
		return nil, err
	}
	f.follow(f.server.Routes().Changed)
	f.view.OnChange(missing.New(missing.Deps{
		Pod: f.view.Pod, HasPort: func(owner contract.Owner) bool { return len(f.db.Rows(owner.String())) > 0 },
		Connected: f.db.Connected, Warn: f.report.Warn, Native: f.CNI.Native,
	}).Changed)
	return f, nil
}

// openPolicies makes what sets NICs up as OffloadPolicies say.
func (f *full) openPolicies() error {
	dir := filepath.Dir(f.Node.Checkpoint)
	uplinks, err := uplink.New(filepath.Join(dir, "uplink.json"), f.Node.Boot, uplink.Deps{
		Netns: node.Local{NS: f.netns}, NIC: setup.NewKernel(f.kernel, sysfs), Gateway: f.setup, Uplink: f.uplinkOf, Logger: f.Logger,
	})
	if err != nil {
		return err
	}
	f.policies, f.nics, err = f.vfs.policies(f.publisher.Changed,
		setup.Vswitchd{Client: vswitchd(f.Config), DB: f.db, Observed: f.sampling.Observed, Links: f.netns},
		setup.Busy{Uplinks: uplinks, Pods: f.drainable, Idle: f.isIdle, UnitDir: f.VFs.UnitDir})
	return err
}

// isIdle says that no pod has the node's network. OVS has no ports of pods after a boot.
func (f *full) isIdle() bool {
	return !f.serving.Load() && f.db.Connected() && len(f.vfs.functions.Ledger.Claims()) == 0 &&
		!slices.ContainsFunc(parseOwners(f.db.Owners()), func(owner contract.Owner) bool { return owner.Kind == contract.KindPod })
}

// nicsTimeout is how long pods wait for NICs that a boot has reset: a change of the mode takes seconds.
const nicsTimeout = 2 * time.Minute

// awaitNICs lets NICs with the node's address get their mode back before the change would interrupt pods.
func (f *full) awaitNICs(ctx context.Context) {
	defer f.serving.Store(true)
	select {
	case <-f.nics.Returned():
	case <-ctx.Done():
	case <-time.After(nicsTimeout):
		f.Logger.Warn("pods get their network before OffloadPolicies are applied", "took", nicsTimeout)
	}
}

// uplinkOf names the netdev of a NIC's physical port.
func (f *full) uplinkOf(device string) (string, error) {
	inv, err := f.inventory.Read()
	if err != nil {
		return "", err
	}
	for i := range inv.PFs {
		if up := inv.PFs[i].Uplink(); inv.PFs[i].Name == device && up != nil {
			return up.Name, nil
		}
	}
	return "", nil
}

// drainable names the pods that have the node's network and that a drain moves to other nodes.
func (f *full) drainable() (names []string) {
	if !f.services.synced.Load() {
		return []string{"pods that are not read yet"}
	}
	for _, pod := range f.view.PodsOnNode(f.Node.Node) {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		owner := metav1.GetControllerOf(pod)
		if !pod.Spec.HostNetwork && !ended && (owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node") {
			names = append(names, "pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

func (f *full) openServer() (err error) {
	cfg := f.CNI
	cfg.MTU = f.setup.MTU
	bridge := &plug.OVS{DB: f.db, Bridge: contract.IntegrationBridge, Host: f.netns, Boot: f.Node.Boot}
	f.ready = func() error { return cmp.Or(bridge.Ready(), joined(f.db), f.setup.Ready()) }
	if f.server, err = cni.NewServer(cfg, cni.Deps{
		Plugger: bridge, Pods: f.pods, Host: f.netns, OpenNS: cni.OpenNS, Functions: f.vfs.functions, Ready: f.ready,
		OnNode: func() []*corev1.Pod { return f.view.PodsOnNode(f.Node.Node) },
		Mapped: func(physicalNetwork string) bool {
			return node.BridgeOf(setting(f.db, node.BridgeMappings), physicalNetwork) != ""
		},
		Carried: func(name string) int { return f.setup.CarriedMTU(setting(f.db, node.BridgeMappings), name, f.netns) }, Warn: f.report.Warn,
	}, f.Logger, f.metrics); err != nil {
		return err
	}
	f.db.OnReconnect(f.server.Repair)
	f.vfs.repair(f.server)
	return nil
}

// Run is Agent's. Nothing that pods need waits for the status of the node or comes out of it.
func (f *full) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		f.label.Run, f.nics.Run, func(ctx context.Context) error { return f.policies.Run(ctx, f.nics.Mark) }, f.publisher.Run, f.vfs.serveKubelet,
	} {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error { f.absence.Run(ctx, f.setup.Mark); return nil })
	group.Go(func() error {
		time.AfterFunc(labelTimeout+time.Second, f.setup.Mark)
		if err := f.start(ctx, group); err != nil {
			return err
		}
		group.Go(func() error { return f.server.RunSweeps(ctx) })
		group.Go(func() error { return f.server.Routes().Run(ctx) })
		if err := f.awaitSetUp(ctx); err != nil {
			return err
		}
		f.startOnUplink(ctx, group)
		f.physical.run(ctx, group)
		f.awaitNICs(ctx)
		return f.serve(ctx, f.server, f.ready)
	})
	return group.Wait()
}

// masqueradeProblem is nil where another CNI plugin has the default network: no masquerade address is in use then.
func (f *full) masqueradeProblem() error {
	if f.Node.SecondaryOnly {
		return nil
	}
	return f.setup.MasqueradeProblem()
}

// facts is what is known of the node at this moment.
func (f *full) facts() nodeoffload.Facts {
	purposes, known := f.own.purposes(), f.known()
	facts := nodeoffload.Facts{
		Versions: f.versions(), Inventory: f.devices.Inventory(), Settings: f.sampling.Settings(), Report: f.sampling.Report(), Endpoint: f.flows.endpoint(),
		Claims: f.vfs.functions.Ledger.Claims(), Damaged: f.vfs.functions.Ledger.Damaged(),
		Policies: f.nics.Results(), Reserved: purposes.NotForPods(),
	}
	if reason := f.unready.Problem(); reason != "" {
		facts.Problems = append(facts.Problems, "the network is not set up: "+reason)
	}
	for _, err := range []error{
		purposes.Missing(vf.ForManagement, known), purposes.Missing(vf.ForGateway, known),
		f.setup.GatewayVFProblem(), f.setup.NextHopProblem(), f.masqueradeProblem(), f.physical.reconciler.Problem(),
	} {
		if err != nil {
			facts.Problems = append(facts.Problems, err.Error())
		}
	}
	return facts
}
