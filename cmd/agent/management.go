package main

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// ownVF finds the VF that the node itself has for a purpose; "" when no VF is to have it.
func (a *agent) ownVF(purpose vf.Purpose) (string, error) {
	device, err := a.purposes().Own(purpose)
	if errors.Is(err, vf.ErrNoInventory) || errors.Is(err, vf.ErrNoVF) { // the NIC may come back
		err = fmt.Errorf("%w: %w", reconcile.ErrNotReady, err)
	}
	return device, err
}

// carrier is the VF with both of its ends. A node that has no such VF, as others
// of the cluster may, has an internal port.
func (a *agent) carrier() (*node.VF, error) {
	f, err := a.bothEnds(a.ownVF(vf.ForManagement))
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return f, nil
}

// gatewayFunction is the same of the gateway bridge, whose own interface has the
// node's address elsewhere.
func (a *agent) gatewayFunction() (*node.VF, error) { return a.bothEnds(a.ownVF(vf.ForGateway)) }

func (a *agent) bothEnds(device string, err error) (*node.VF, error) {
	if errors.Is(err, vf.ErrNoVF) {
		return nil, nil
	}
	if err != nil || device == "" {
		return nil, err
	}
	pf, v, err := a.devices.VF(device)
	if err != nil {
		return nil, err
	}
	representor, err := pf.RepresentorOf(&v)
	if err != nil {
		return nil, err
	}
	return &node.VF{Device: device, Representor: representor}, nil
}

// hostCarrier is the VF on a host, and what its DPU is told of it.
func (a *agent) hostCarrier() (*node.VF, error) {
	device, err := a.ownVF(vf.ForManagement)
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	if device == "" {
		return nil, nil
	}
	former := ""
	if object := a.view.Node(a.opts.node.Node); object != nil {
		former = object.Annotations[contract.ManagementPortKey]
	}
	claim, err := dpu.ClaimManagement(*a.devices.Inventory(), device, former)
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return &node.VF{Device: device, Claim: claim}, nil
}

// dpuCarrier is the representor of the host's VF; nil: the host has none, and the
// DPU itself has the management port. A refusal is an Event of the host's Node.
func dpuCarrier(ports *dpu.Ports, refused func(reason string)) func() (*node.VF, error) {
	last := ""
	return func() (*node.VF, error) {
		representor, err := ports.Management()
		reason := ""
		if err != nil && !errors.Is(err, reconcile.ErrNotReady) {
			reason = err.Error()
		}
		if reason != "" && reason != last {
			refused(reason)
		}
		if last = reason; err != nil || representor == nil {
			return nil, err
		}
		return &node.VF{Representor: representor.Name}, nil
	}
}

// management keeps the port apart from the rest of the node's set-up.
func (a *agent) management(client *api.Client, function func() (*node.VF, error), mtu func() int) (*management.Runner, error) {
	deps := node.Deps{
		Netns:    node.Local{NS: a.host},
		Node:     func() *corev1.Node { return a.view.Node(a.opts.node.Node) },
		Annotate: kube.NewWriter(client).AnnotateNode,
		Logger:   a.opts.log, Registerer: a.metrics,
	}
	if a.db != nil { // else an interface that is not nil
		deps.DB = a.db
	}
	return management.New(management.NewPort(a.opts.node.Config, deps, function), mtu)
}

// dpuManagement comes after the ports' own listener for devices.
func (a *agent) dpuManagement(client *api.Client, ports *dpu.Ports, report *kube.Reporter) (*management.Runner, error) {
	host := contract.NodeOwner(a.opts.node.Node)
	carrier := dpuCarrier(ports, func(reason string) { report.Warn(host, "ManagementPortRefused", "the DPU: "+reason) })
	management, err := a.management(client, carrier, a.setup.MTU)
	if err != nil {
		return nil, err
	}
	a.onCarrier(func(vf.Inventory) string {
		if representor, err := ports.Management(); err == nil && representor != nil {
			return fmt.Sprint(representor.Name, representor.Index)
		}
		return ""
	}, management.Mark)
	return management, nil
}

// onCarrier calls mark when the links of the management port are other ones.
func (a *agent) onCarrier(links func(vf.Inventory) string, mark func()) {
	last := ""
	a.devices.OnChange(func(inv vf.Inventory) {
		if now := links(inv); now != last {
			last = now
			mark()
		}
	})
}

// carrierLinks tells the links of the VFs of this node.
func (a *agent) carrierLinks(inv vf.Inventory) string {
	text := ""
	for _, purpose := range []vf.Purpose{vf.ForManagement, vf.ForGateway} {
		device, err := a.ownVF(purpose)
		if err != nil || device == "" {
			continue
		}
		_, v, _ := inv.VF(device)
		text += " " + device
		if v != nil && v.Netdev != nil {
			text += fmt.Sprint(" ", v.Netdev.Name, v.Netdev.Index)
		}
		if v != nil && v.Representor != nil {
			text += fmt.Sprint(" ", v.Representor.Name, v.Representor.Index)
		}
	}
	return text
}
