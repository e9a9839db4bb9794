package main

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// detect finds out what this machine is. A DPU need not be a Node of the cluster
// that it is given the address of.
func (a *agent) detect(ctx context.Context, client *api.Client) (string, error) {
	labels := map[string]string{}
	if name := a.opts.node.Node; name != "" {
		node, err := client.Nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("finding out the mode: %w", err)
		}
		labels = node.Labels
	}
	host, err := netdev.Open("")
	if err != nil {
		return "", err
	}
	devices, err := netdev.OpenDevices(host)
	if err != nil {
		return "", err
	}
	defer func() { _ = devices.Close(); _ = host.Close() }()
	inventory, err := (&vf.Node{Sysfs: netdev.OpenSysfs(sysfs), Kernel: devices, Links: host}).Read()
	if err != nil {
		return "", fmt.Errorf("finding out the mode: %w", err)
	}
	return chooseMode(labels, inventory), nil
}

// chooseMode goes by the Node's labels, which somebody has thought about, and
// then by what is there: who has the representors of another machine is a DPU.
// A host does not show that its NIC is one.
func chooseMode(labels map[string]string, inventory vf.Inventory) string {
	if _, ok := labels[contract.DPUHostLabel]; ok {
		return modeHost
	}
	if _, ok := labels[contract.DPULabel]; ok {
		return modeDPU
	}
	for _, pf := range inventory.PFs {
		if slices.ContainsFunc(pf.Representors, func(r vf.Representor) bool { return r.Function.External }) {
			return modeDPU
		}
	}
	return modeFull
}
