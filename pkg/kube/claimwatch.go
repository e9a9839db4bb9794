package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

const (
	// byClaim is the index of pods by the IPAMClaims that they refer to.
	byClaim = "claim"
	// byNetwork is the index of IPAMClaims.
	byNetwork = "network"
)

// ClaimAllocated is the condition of an IPAMClaim that says whether it has addresses.
const ClaimAllocated = "IPsAllocated"

// IPAMClaims are the IPAMClaims in the API.
func IPAMClaims() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1alpha1", Resource: "ipamclaims"}
}

// claims are the IPAMClaims, whose CRD may be absent.
type claims struct {
	ipamClaims    store[unstructured.Unstructured]
	claimsPresent bool
}

func podsByClaim() map[string]func(*corev1.Pod) []string {
	return map[string]func(*corev1.Pod) []string{byClaim: func(pod *corev1.Pod) (keys []string) {
		attachments, _ := contract.Attachments(pod)
		primary, _ := contract.OnPrimary(pod)
		for _, a := range append(attachments, primary) {
			if a.Claim != "" {
				keys = append(keys, pod.Namespace+"/"+a.Claim)
			}
		}
		return keys
	}}
}

func (v *networks) startClaims(ctx context.Context, f *following, changed func(owners ...contract.Owner)) {
	synced, err := listen(ctx, v.ipamClaims, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		if before != nil && after != nil && sameClaim(before, after) {
			return
		}
		claim := either(before, after)
		owners := []contract.Owner{{Kind: contract.KindIPAMClaim, Namespace: claim.GetNamespace(), Name: claim.GetName()}}
		for _, pod := range v.allPods.Find(byClaim, keyOf(claim)) {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
		changed(owners...)
	})
	if v.claimsPresent || err != nil {
		f.add(synced, err)
	}
}

func sameClaim(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && equality.Semantic.DeepEqual(old.Object["status"], new.Object["status"]) &&
		equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}

// claimsByNetwork is the index of IPAMClaims by the network that they are for.
func claimsByNetwork() cache.Indexers {
	return indexers(map[string]func(*unstructured.Unstructured) []string{byNetwork: func(object *unstructured.Unstructured) []string {
		network, _, _ := unstructured.NestedString(object.Object, "spec", "network")
		return []string{network}
	}})
}

// IPAMClaim is nil when there is none of that name.
func (v *claims) IPAMClaim(namespace, name string) *unstructured.Unstructured {
	if v.ipamClaims.SharedIndexInformer == nil {
		return nil
	}
	return v.ipamClaims.Get(namespace + "/" + name)
}

// Claim is an IPAMClaim for the allocator, nil when there is none of that name. One that cannot be read has no addresses.
func (v *claims) Claim(namespace, name string) *ipam.Claim {
	object := v.IPAMClaim(namespace, name)
	if object == nil {
		return nil
	}
	claim, err := parseClaim(object)
	if err != nil {
		claim.Addresses = nil
	}
	return &claim
}

// Claims are the IPAMClaims for a network, oldest first.
func (v *claims) Claims(network string) (all []ipam.Claim) {
	if v.ipamClaims.SharedIndexInformer == nil {
		return nil
	}
	for _, object := range slices.SortedFunc(slices.Values(v.ipamClaims.Find(byNetwork, network)), olderObject) {
		if claim, err := parseClaim(object); err == nil {
			all = append(all, claim)
		}
	}
	return all
}

func olderObject(a, b *unstructured.Unstructured) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(keyOf(a), keyOf(b)))
}

// Requests are those of the definitions of networks that the pod may use, with the IPAMClaims.
func (v *primaries) Requests(pod *corev1.Pod) []ipam.Request {
	requests, _ := v.requests(pod)
	return requests
}

// MissingNetworks says which attachments a pod has to wait for, and why.
func (v *primaries) MissingNetworks(pod *corev1.Pod) error {
	_, err := v.requests(pod)
	return err
}

func (v *primaries) requests(pod *corev1.Pod) ([]ipam.Request, error) {
	primary, waits := v.primaryRequest(pod)
	asked, missing := v.Access.Requests(pod)
	quota := v.quota(pod.Namespace)
	for i := range asked {
		asked[i].Quota = quota
	}
	requests, denied := v.granted(pod, append(primary, asked...))
	for i := range requests {
		requests[i].Routes = slices.Concat(requests[i].AskedRoutes, v.chainRoutes(pod, requests[i].NAD))
	}
	return requests, errors.Join(waits, missing, denied)
}

func (v *networks) granted(pod *corev1.Pod, requests []ipam.Request) (out []ipam.Request, err error) {
	var errs []error
	for _, r := range requests {
		if err := v.deniedTo(pod, r.NAD, &r.Network); err != nil && len(pod.Status.PodIPs) == 0 {
			errs = append(errs, fmt.Errorf("NetworkAttachmentDefinition %s: %w", r.NAD, err))
			continue
		}
		if r.Claim != "" {
			claim, err := v.claimOf(pod, r)
			if err != nil && len(pod.Status.PodIPs) == 0 {
				errs = append(errs, err)
				continue
			}
			r.IPAMClaim = claim // nil for a running pod whose claim is gone
		}
		out = append(out, r)
	}
	return out, errors.Join(errs...)
}

func (v *claims) claimOf(pod *corev1.Pod, r ipam.Request) (*ipam.Claim, error) {
	object := v.IPAMClaim(pod.Namespace, r.Claim)
	if object == nil {
		return nil, fmt.Errorf("IPAMClaim %s/%s does not exist", pod.Namespace, r.Claim)
	}
	claim, err := parseClaim(object)
	switch {
	case err != nil:
		return nil, err
	case !r.Network.Persistent || len(r.Network.Subnets) == 0:
		return nil, fmt.Errorf("IPAMClaim %s/%s: network %s has no allowPersistentIPs, or no subnets", pod.Namespace, r.Claim, r.Network.Name)
	case claim.Network != r.Network.Name:
		return nil, fmt.Errorf("IPAMClaim %s/%s is for network %s, not %s", pod.Namespace, r.Claim, claim.Network, r.Network.Name)
	}
	return &claim, nil
}

// isRefused says that a claim's condition is False.
func isRefused(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == ClaimAllocated && condition["status"] == string(metav1.ConditionFalse)
	})
}

func parseClaim(object *unstructured.Unstructured) (ipam.Claim, error) {
	claim := ipam.Claim{
		Owner: contract.Owner{Kind: contract.KindIPAMClaim, Namespace: object.GetNamespace(), Name: object.GetName()}, UID: object.GetUID(),
	}
	claim.Network, _, _ = unstructured.NestedString(object.Object, "spec", "network")
	ips, _, _ := unstructured.NestedStringSlice(object.Object, "status", "ips")
	for _, text := range ips {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return claim, fmt.Errorf("IPAMClaim %s: status.ips: %.100q is not an address with a length", keyOf(object), text)
		}
		claim.Addresses = append(claim.Addresses, prefix.Addr())
	}
	claim.Refused = isRefused(object)
	return claim, nil
}
