package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// undoTimeout bounds the way back, which runs even when the request has ended.
const undoTimeout = 10 * time.Second

// attachment is one ADD: all its interfaces are made, or none.
type attachment struct {
	Deps
	cfg        Config
	req        *Request
	uid        string // of the pod in the API
	podMTU     int    // where the network names none
	interfaces []*iface
	undo       []func(context.Context) error
}

// iface is one interface of an attachment.
type iface struct {
	*attachment
	name    string         // in the pod
	pod     contract.Owner // on the interface's network
	network *contract.PodNetwork
	link    podlink.Link
	mtu     int    // of the network, else of the runtime or the node
	device  string // that it must be, "" where the pod's resources decide
	port    plug.Port
	vf      *vf.Handle // nil for a veth
	netdev  string     // the VF's name outside the pod, "" for one that VFIO has
}

// Attach connects a pod's sandbox and returns when its first packet will pass.
// It leaves nothing behind when it fails. An attachment that is there already
// is completed and its result given again. The caller runs one command of a pod
// at a time.
func Attach(ctx context.Context, d Deps, cfg Config, r *Request) (*types100.Result, error) {
	a := &attachment{Deps: d, cfg: cfg, req: r, podMTU: r.Conf.MTU}
	if a.podMTU == 0 {
		a.podMTU = cfg.MTU()
	}
	if a.podMTU == 0 {
		return nil, types.NewError(types.ErrTryAgainLater, "the MTU of pods is not known yet", "")
	}
	result, err := a.run(ctx)
	if err == nil {
		return result, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for _, undo := range slices.Backward(a.undo) {
		if undoErr := undo(ctx); undoErr != nil {
			err = errors.Join(err, fmt.Errorf("undoing: %w", undoErr))
		}
	}
	return nil, err
}

func (a *attachment) run(ctx context.Context) (*types100.Result, error) {
	if err := a.stage("pod", func() error { return a.waitPod(ctx) }); err != nil {
		return nil, err
	}
	if err := a.stage("annotation", func() error { return a.waitAnnotation(ctx) }); err != nil {
		return nil, err
	}
	if err := a.each(ctx, (*iface).checkPhysical); err != nil {
		return nil, err
	}
	if err := a.stage("device", func() error { return a.each(ctx, (*iface).claimDevice) }); err != nil {
		return nil, err
	}
	if err := a.stage("attach", func() error { return a.attach(ctx) }); err != nil {
		return nil, err
	}
	if err := a.stage("flows", func() error { return a.waitFlows(ctx) }); err != nil {
		return nil, err
	}
	return a.result()
}

func (a *attachment) each(ctx context.Context, do func(*iface, context.Context) error) error {
	for _, i := range a.interfaces {
		if err := do(i, ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *attachment) stage(name string, f func() error) error {
	start := time.Now()
	err := f()
	if a.Stage != nil {
		a.Stage(name, time.Since(start))
	}
	return err
}

func (a *attachment) waitPod(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.PodTimeout)
	defer cancel()
	err := a.Pods.Wait(ctx, a.req.Pod, func(pod *corev1.Pod) (bool, error) {
		switch {
		case pod == nil:
			return false, errors.New("the API does not show it on this node")
		case !isPod(pod, a.req.UID):
			return false, fmt.Errorf("the API shows it with UID %s, the runtime asks for %s", pod.UID, a.req.UID)
		}
		a.uid = string(pod.UID)
		return true, nil
	})
	return a.waited(ctx, CodePod, "pod", err)
}

func (a *attachment) waitAnnotation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AnnotationTimeout)
	defer cancel()
	err := a.Pods.Wait(ctx, a.req.Pod, func(pod *corev1.Pod) (bool, error) {
		if pod == nil || string(pod.UID) != a.uid {
			return true, fail(CodeChanged, "annotation: pod %s was deleted or replaced", a.req.Pod)
		}
		var err error
		a.interfaces, err = a.read(pod)
		var final *types.Error
		return err == nil || errors.As(err, &final), err
	})
	code := CodeAnnotation
	if errors.Is(err, errNoNetwork) {
		code = CodeNetwork
	}
	return a.waited(ctx, code, "annotation", err)
}

// recorded is what the annotation says of the interface's network.
func (a *iface) recorded(pod *corev1.Pod) (*contract.PodNetwork, error) {
	return contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], a.pod.NetworkKey())
}

// waited explains a wait that ended without what it waited for.
func (a *attachment) waited(ctx context.Context, code uint, stage string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errCancelled) {
		err = errCancelled
	}
	return a.failed(code, stage, fmt.Errorf("waiting for pod %s: %w", a.req.Pod, err))
}

// failed names the stage in an error that has no code yet.
func (a *attachment) failed(code uint, stage string, err error) error {
	var cniErr *types.Error
	if errors.As(err, &cniErr) {
		return err
	}
	if errors.Is(err, errCancelled) {
		code = CodeCancelled
	}
	return fail(code, "%s: %v", stage, err)
}

func (a *attachment) attach(ctx context.Context) error {
	ns, err := a.OpenNS(a.req.Netns)
	if err != nil {
		return fail(types.ErrInvalidNetNS, "attach: %v", err)
	}
	defer func() { _ = ns.Close() }()
	return a.each(ctx, func(i *iface, ctx context.Context) error { return i.attach(ctx, ns) })
}

func (a *iface) attach(ctx context.Context, ns PodLinks) error {
	was, ok, err := plug.Find(a.Plugger, a.pod)
	if err != nil {
		return fail(CodeAttach, "attach: %v", err)
	}
	same := ok && was.Sandbox == a.req.Sandbox
	if same && was.IfName != a.name {
		return fail(CodeTaken, "attach: sandbox %s of %s has network %s on %s already", a.req.Sandbox, a.req.Pod, a.pod.NetworkKey(), was.IfName)
	}
	a.reportMTU()
	a.port = a.wanted()
	if a.vf == nil {
		if err := a.addVeth(ns, same); err != nil {
			return err
		}
	}
	// The port comes before the addresses: OVS and OVN work on it meanwhile.
	if a.port.Link, err = a.Plugger.Plug(ctx, a.port); err != nil {
		if errors.Is(context.Cause(ctx), errCancelled) {
			err = errCancelled
		}
		return a.failed(CodeAttach, "attach", err)
	}
	if ok && was.Link != a.port.Link && !was.Representor {
		_ = removeLink(a.Host, was) // of the pod's previous sandbox; Sweep would find it
	}
	if a.vf != nil {
		return a.moveDevice(ctx, ns)
	}
	return a.configure(ns)
}

func (a *iface) configure(ns PodLinks) error {
	if err := a.link.Configure(ns); err != nil {
		return fail(CodeAttach, "attach: %s in %s: %v", a.name, a.req.Netns, err)
	}
	return nil
}

func (a *iface) wanted() plug.Port {
	p := plug.Port{
		Plugged: plug.Plugged{
			Pod: a.pod, UID: a.uid, Sandbox: a.req.Sandbox, IfName: a.name, Attachment: a.req.IfName,
			Network: a.req.Conf.Name, Link: hostLink(a.req.Sandbox, a.name, a.pod.Network), Netns: a.req.Netns,
		},
		MAC: net.HardwareAddr(a.network.MAC), Addresses: a.network.Addresses, NetworkName: a.network.Network, MTU: a.mtu,
	}
	if a.vf != nil {
		p.VF, p.Netdev, p.Link, p.Representor = a.vf, a.netdev, "", true
	}
	return p
}

// addVeth makes the pair, or keeps a whole one that an earlier ADD has made.
func (a *iface) addVeth(ns PodLinks, known bool) error {
	made, name := a.port.Plugged, a.port.Link
	link, err := a.Host.Link(name)
	found, own := ours(link)
	switch {
	case errors.Is(err, netdev.ErrNotFound):
	case err != nil:
		return fail(CodeAttach, "attach: %v", err)
	case !own || !found.SameInterface(made):
		return fail(CodeTaken, "attach: the host has a link %s that is not of this sandbox", name)
	case known && a.link.Check(ns) == nil:
		return nil
	default: // left over, or of another address
		if err := a.Host.DeleteLink(name); err != nil {
			return fail(CodeAttach, "attach: %v", err)
		}
	}
	a.undo = append(a.undo, func(context.Context) error { return removeLink(a.Host, made) })
	err = a.Host.AddVeth(netdev.Veth{
		Name: name, Alias: alias(made), MTU: a.mtu,
		Peer: netdev.Peer{Path: a.req.Netns, Name: a.name, MAC: []byte(a.network.MAC)},
		// With the userspace datapath the host's stack sees what the pod sends, too.
		Near: netdev.Settings{NoLinkLocal: true, NoARP: true, State: netdev.Up},
	})
	if errors.Is(err, netdev.ErrExists) {
		return fail(CodeTaken, "attach: %s exists already in %s", a.name, a.req.Netns)
	}
	if err != nil {
		return fail(CodeAttach, "attach: %v", err)
	}
	a.undo = append(a.undo, func(ctx context.Context) error { return a.Plugger.Unplug(ctx, a.port.Plugged) })
	return nil
}

// waitFlows waits for the switch, unless the pod changes underneath.
func (a *attachment) waitFlows(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.FlowsTimeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if err := a.Pods.Wait(ctx, a.req.Pod, a.changed); err != nil && ctx.Err() == nil {
			stop(err)
		}
	}()
	err := a.each(ctx, func(i *iface, ctx context.Context) error {
		if err := i.Plugger.Wait(ctx, i.port); err != nil {
			return fmt.Errorf("flows of %s (at most %s): %w", plug.LogicalPort(i.pod), i.cfg.FlowsTimeout, err)
		}
		return nil
	})
	cause := context.Cause(ctx)
	stop(nil)
	<-watching
	if err == nil {
		_, err = a.changed(a.Pods.get(a.req.Pod))
		return err
	}
	var cniErr *types.Error
	if errors.As(cause, &cniErr) {
		return cniErr
	}
	return a.waited(ctx, CodeFlows, "flows", err)
}

// changed is done when the pod is no longer the one that is being attached.
func (a *attachment) changed(pod *corev1.Pod) (bool, error) {
	if pod == nil || string(pod.UID) != a.uid {
		return true, fail(CodeChanged, "flows: pod %s was deleted or replaced", a.req.Pod)
	}
	for _, i := range a.interfaces {
		if network, err := i.recorded(pod); err != nil || !reflect.DeepEqual(network, i.network) {
			return true, fail(CodeChanged, "flows: %s of pod %s was changed", contract.PodNetworksKey, a.req.Pod)
		}
	}
	return false, nil
}
