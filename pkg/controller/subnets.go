package controller

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// subnetWriter writes to NamespaceSubnets; nil without a dynamic client, and then there are none.
func (p *process) subnetWriter() *kube.ObjectWriter {
	if p.cfg.Dynamic == nil {
		return nil
	}
	return kube.NewObjectWriter(p.cfg.Dynamic, v1alpha1.NamespaceSubnets())
}

// followSubnet keeps a NamespaceSubnet until no pod has an address of it, and says in its status whether pods get some.
func (c *Zone) followSubnet(ctx context.Context, owner contract.Owner) error {
	u := c.view.NamespaceSubnet(owner.Name)
	if u == nil {
		c.isOther(lack{owner, lackSubnet}, nil)
		return nil
	}
	problem, ends, used := c.view.NamespaceSubnetProblem(owner.Name), u.GetDeletionTimestamp() != nil, ipam.InUse(c.addresses, owner.Name)
	if c.isOther(lack{owner, lackSubnet}, problem) {
		c.report.Warn(owner, "SubnetRefused", problem.Error())
	}
	finalizers := slices.DeleteFunc(slices.Clone(u.GetFinalizers()), func(f string) bool { return f == contract.NamespaceSubnetFinalizer })
	if !ends || used {
		finalizers = append(finalizers, contract.NamespaceSubnetFinalizer)
	}
	writer := c.subnetWriter()
	if len(finalizers) != len(u.GetFinalizers()) {
		return writer.SetFinalizers(ctx, u, finalizers)
	}
	object, err := v1alpha1.Decode[v1alpha1.NamespaceSubnet](u)
	if err != nil {
		return fmt.Errorf("reading NamespaceSubnet %s: %w", owner.Name, err)
	}
	conditions := slices.Clone(object.Status.Conditions)
	meta.SetStatusCondition(&conditions, subnetCondition(problem, ends, u.GetGeneration()))
	if equality.Semantic.DeepEqual(conditions, object.Status.Conditions) {
		return nil
	}
	return writer.SetStatus(ctx, u, map[string]any{"conditions": conditions})
}

func subnetCondition(problem error, ends bool, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "SubnetAccepted", ObservedGeneration: generation,
		Message: "new pods of the selected namespaces get addresses of the subnets",
	}
	switch {
	case problem != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "SubnetRefused", problem.Error()
	case ends:
		c.Reason, c.Message = "AddressesInUse", "pods have addresses of the subnets; the object is deleted with the last of them"
	}
	return c
}

// neighbors are the addresses of namespaces' subnets that a pod has, also one that is just deleted.
func (c *Zone) neighbors(pod contract.Owner) []contract.Owner {
	if pod.Network != "" {
		return nil
	}
	return ipam.Neighbors(c.addresses, pod)
}
