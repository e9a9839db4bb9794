package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// record writes a pod's decision: the addresses of its IPAMClaims first, so that no pod has an address which the next
// pod of the claim would not get.
func (c *Zone) record(ctx context.Context, pod *corev1.Pod, decision ipam.Decision) error {
	for owner, addresses := range decision.Claims {
		if err := c.recordClaim(ctx, pod, owner, addresses); err != nil {
			return err
		}
	}
	if contract.IsAttached(pod) || decision.Annotations != nil && c.view.Locked(pod) {
		decision.Annotations = c.withStatus(pod, decision.Annotations)
	}
	return c.write.AnnotatePod(ctx, pod, decision.Annotations)
}

// withStatus adds what a pod's interfaces are: for OVN4NFV, and where there is no Multus to write it.
func (c *Zone) withStatus(pod *corev1.Pod, decided map[string]string) map[string]string {
	networks := cmp.Or(decided[contract.PodNetworksKey], pod.Annotations[contract.PodNetworksKey])
	out := maps.Clone(decided)
	if out == nil {
		out = map[string]string{}
	}
	if status := contract.NetworkStatus(pod, networks); status != "" && c.cfg.Native {
		out[contract.NetworkStatusKey] = status
	}
	if interfaces := contract.NodusInterfaces(pod, networks); interfaces != "" {
		out[contract.NodusInterfacesKey] = interfaces
	}
	return out
}

func (c *Zone) recordClaim(ctx context.Context, pod *corev1.Pod, owner contract.Owner, addresses []netip.Prefix) error {
	claim := c.view.IPAMClaim(owner.Namespace, owner.Name)
	if claim == nil {
		return fmt.Errorf("IPAMClaim %s/%s was deleted", owner.Namespace, owner.Name)
	}
	var ips []string
	for _, address := range addresses {
		ips = append(ips, address.String())
	}
	conditions := conditionsOf(claim)
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: kube.ClaimAllocated, Status: metav1.ConditionTrue, Reason: "SuccessfulAllocation", Message: "the network has given addresses to the claim",
	})
	return c.claimWriter.SetStatus(ctx, claim, map[string]any{"ips": ips, "ownerPod": map[string]any{"name": pod.Name}, "conditions": conditions})
}

// refuseClaims says in the status of a pod's IPAMClaims without addresses why they have none: for some the decision says it,
// the others wait for what the pod waits for.
func (c *Zone) refuseClaims(ctx context.Context, pod *corev1.Pod, decision ipam.Decision, waits error) error {
	attachments, _ := contract.Attachments(pod)
	primary, _ := contract.OnPrimary(pod)
	for _, a := range append(attachments, primary) {
		owner := contract.Owner{Kind: contract.KindIPAMClaim, Namespace: pod.Namespace, Name: a.Claim}
		why := decision.Refused[owner]
		if why == nil {
			why = waits
		}
		if a.Claim == "" || why == nil || decision.Claims[owner] != nil {
			continue
		}
		if err := c.refuseClaim(ctx, owner, why); err != nil {
			return err
		}
	}
	return nil
}

func (c *Zone) refuseClaim(ctx context.Context, owner contract.Owner, why error) error {
	claim := c.view.IPAMClaim(owner.Namespace, owner.Name)
	if claim == nil {
		return nil
	}
	if ips, _, _ := unstructured.NestedStringSlice(claim.Object, "status", "ips"); len(ips) > 0 && !errors.Is(why, ipam.ErrRequest) {
		return nil // it has them
	}
	conditions := conditionsOf(claim)
	if !meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: kube.ClaimAllocated, Status: metav1.ConditionFalse, Reason: refusalReason(why), Message: why.Error(),
	}) {
		return nil
	}
	return c.claimWriter.SetStatus(ctx, claim, map[string]any{"conditions": conditions})
}

// refusalReason is one of those that clients of IPAMClaims know.
func refusalReason(err error) string {
	switch {
	case errors.Is(err, ipam.ErrExhausted):
		return "SubnetExhausted"
	case errors.Is(err, ipam.ErrAddressTaken):
		return "IPAddressConflict"
	case errors.Is(err, ipam.ErrMACTaken):
		return "MACAddressConflict"
	}
	return "InternalError"
}

// conditionsOf are a claim's conditions, none if they cannot be read.
func conditionsOf(claim *unstructured.Unstructured) []metav1.Condition {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if object, ok := claim.Object["status"].(map[string]any); ok {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(object, &status)
	}
	return status.Conditions
}

// followClaim holds the addresses of an IPAMClaim, and frees those of one that was deleted. Running pods keep them until they
// go.
func (c *Zone) followClaim(owner contract.Owner) {
	c.markAll(ipam.FollowClaim(c.addresses, owner, c.view.Claim(owner.Namespace, owner.Name))...)
}
