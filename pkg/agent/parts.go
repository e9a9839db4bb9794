package agent

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/cnifiles"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
)

// parts are those of each kind of node.
type parts struct {
	*Process
	*machine
	view     *kube.NodeView
	pods     *cni.Pods
	writer   *kube.Writer
	services *services
	own      *ownVFs
	report   *kube.Reporter
}

func newParts(ctx context.Context, p *Process) (*parts, error) {
	m, err := openMachine(sysfs, p.Logger)
	if err != nil {
		return nil, err
	}
	if p.Node.Boot, err = bootID(); err != nil {
		return nil, err
	}
	view, err := kube.NewNodeView(p.client, p.Node.Node)
	if err != nil {
		return nil, err
	}
	n := &parts{
		Process: p, machine: m, view: view, pods: cni.NewPods(view.Pod), writer: kube.NewWriter(p.client),
		services: newServices(p, view), own: newOwnVFs(m, p.VFs.Purposes),
		report: kube.NewReporter(ctx, p.client, view, "ovn-offload-agent"),
	}
	view.OnChange(n.pods.Changed)
	return n, nil
}

// node is nil while its object is not known.
func (n *parts) node() *corev1.Node { return n.view.Node(n.Node.Node) }

// onNode calls changed at each change of the Node object.
func (n *parts) onNode(changed func()) {
	n.view.OnChange(func(owners ...contract.Owner) {
		if slices.Contains(owners, contract.NodeOwner(n.Node.Node)) {
			changed()
		}
	})
}

// nodeDeps are without a database, which a host with a DPU lacks.
func (n *parts) nodeDeps() node.Deps {
	return node.Deps{
		Netns: node.Local{NS: n.netns}, Node: n.node, Annotate: n.writer.AnnotateNode,
		Logger: n.Logger, Registerer: n.metrics,
	}
}

// management makes the runner of a management port that is apart from the rest of the node's set-up.
func (n *parts) management(deps node.Deps, vf func() (*node.VF, error), mtu func() int) (*management.Runner, error) {
	return management.New(management.NewPort(n.Node.Config, deps, vf), mtu)
}

// publisher writes a part of the node's NodeOffload.
func (n *parts) publisher(part nodeoffload.Part, facts func() nodeoffload.Facts) (*nodeoffload.Publisher, error) {
	cfg := nodeoffload.Defaults(n.Node.Node)
	cfg.Part, cfg.Logger, cfg.Registerer = part, n.Logger, n.metrics
	return nodeoffload.New(cfg, nodeoffload.Deps{Client: n.kinds, Facts: facts, Label: n.writer.LabelNode, NodeObject: n.node})
}

// versions are those of this process and the kernel.
func (n *parts) versions() v1alpha1.Versions {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		n.Logger.Warn("reading the kernel's release", "error", err)
	}
	return v1alpha1.Versions{Agent: n.Version, Kernel: unix.ByteSliceToString(name.Release[:])}
}

// serve tells the runtime of the network only when the plugin would find it.
func (n *parts) serve(ctx context.Context, server *cni.Server, ready func() error) error {
	if err := server.Listen(); err != nil {
		return err
	}
	if err := cnifiles.InstallPlugin(n.Install.Plugin, n.Install.BinDir); err != nil {
		return err
	}
	if n.Node.SecondaryOnly { // Multus asks the plugin
		n.ready.set(ready)
		n.Logger.Info("node is ready for secondary networks")
		return server.Run(ctx)
	}
	conf := n.Install.Conf
	if err := conf.Write(n.Logger); err != nil {
		return err
	}
	if err := conf.Check(); err != nil {
		n.Logger.Warn("pods get another network", "error", err)
	}
	go conf.FollowFormer(ctx, n.Logger)
	n.ready.set(func() error { return cmp.Or(ready(), conf.Check()) })
	n.Logger.Info("node is ready for pods")
	return server.Run(ctx)
}
