package main

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

var errNoCarrier = errors.New("there is no VF")

// managementVF finds the VF that carries the management port; "" when none is to.
func (a *agent) managementVF() (string, error) {
	return a.ownVF(a.opts.devices.management, a.opts.devices.carrier)
}

// gatewayVF finds the VF that has the node's address; "" when none is to.
func (a *agent) gatewayVF() (string, error) {
	device, err := a.ownVF(a.opts.devices.gateway, a.opts.devices.gatewayVF)
	if management, _ := a.managementVF(); err == nil && device != "" && device == management {
		return "", fmt.Errorf("VF %s is the management port", device)
	}
	return device, err
}

// ownVF finds a VF that is the node's own, which has to be one that no pod has.
func (a *agent) ownVF(name string, selector plugin.Selector) (string, error) {
	if name == "" {
		return "", nil
	}
	known := a.devices.Inventory()
	if known == nil {
		return "", fmt.Errorf("%w: the node's devices are not known yet", reconcile.ErrNotReady)
	}
	selected, _ := plugin.Split(plugin.FromInventory(*known, a.uplink), selector)
	switch len(selected) {
	case 0: // its NIC may come back
		return "", fmt.Errorf("%w: %w %s", reconcile.ErrNotReady, errNoCarrier, name)
	case 1:
	default:
		return "", fmt.Errorf("%s is %d VFs, and has to be one", name, len(selected))
	}
	device := selected[0].ID
	if claim, held := a.functions.Ledger.Holder(device); held {
		return "", fmt.Errorf("VF %s is held by pod %s", device, claim.Pod)
	}
	return device, nil
}

// carrier is the VF with both of its ends. A node that has no such VF, as others
// of the cluster may, has an internal port.
func (a *agent) carrier() (*node.Function, error) {
	f, err := a.bothEnds(a.managementVF())
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return f, nil
}

// gatewayFunction is the same of the gateway bridge, whose own interface has the
// node's address elsewhere.
func (a *agent) gatewayFunction() (*node.Function, error) { return a.bothEnds(a.gatewayVF()) }

func (a *agent) bothEnds(device string, err error) (*node.Function, error) {
	if errors.Is(err, errNoCarrier) {
		return nil, nil
	}
	if err != nil || device == "" {
		return nil, err
	}
	representor, err := a.representor(cni.Device{ID: device})
	if err != nil {
		return nil, err
	}
	return &node.Function{Device: device, Representor: representor}, nil
}

// hostCarrier is the VF on a host, and what its DPU is told of it.
func (a *agent) hostCarrier() (*node.Function, error) {
	device, err := a.managementVF()
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
	return &node.Function{Device: device, Claim: claim}, nil
}

// dpuCarrier is the representor of the host's VF; nil: the host has none, and the
// DPU itself has the management port. A refusal is an Event of the host's Node.
func dpuCarrier(ports *dpu.Ports, refused func(reason string)) func() (*node.Function, error) {
	last := ""
	return func() (*node.Function, error) {
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
		return &node.Function{Representor: representor.Name}, nil
	}
}

// management keeps the port apart from the rest of the node's set-up.
func (a *agent) management(client *api.Client, function func() (*node.Function, error), mtu func() int) (*node.Management, error) {
	deps := node.Deps{
		Host: node.Local{NS: a.host}, Function: function,
		Node:     func() *corev1.Node { return a.view.Node(a.opts.node.Node) },
		Annotate: kube.NewWriter(client).AnnotateNode,
		Logger:   a.opts.log, Registerer: a.metrics,
	}
	if a.db != nil { // else an interface that is not nil
		deps.DB = a.db
	}
	return node.NewManagement(a.opts.node, deps, mtu)
}

// dpuManagement comes after the ports' own listener for devices.
func (a *agent) dpuManagement(client *api.Client, ports *dpu.Ports, report *kube.Reporter) (*node.Management, error) {
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
	for _, find := range []func() (string, error){a.managementVF, a.gatewayVF} {
		device, err := find()
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
