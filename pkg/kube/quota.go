package kube

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam/quota"
)

// quota is how many attachments to secondary networks the pods of a namespace may have; nil: any number.
func (v *grants) quota(namespace string) *quota.Quota {
	text, limited := maxAttachments(v.allNamespaces.Get(namespace))
	if !limited {
		return nil
	}
	limit, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return &quota.Quota{Problem: fmt.Errorf("annotation %s is %q, which is no number", contract.MaxAttachmentsKey, text)}
	}
	return &quota.Quota{Max: int(limit)}
}

func maxAttachments(namespace *corev1.Namespace) (value string, limited bool) {
	if namespace != nil {
		value, limited = namespace.Annotations[contract.MaxAttachmentsKey]
	}
	return value, limited
}

// quotaChanged are the pods that may wait for a namespace's quota.
func quotaChanged(pods store[corev1.Pod], old, new *corev1.Namespace) (owners []contract.Owner) {
	before, wasLimited := maxAttachments(old)
	after, isLimited := maxAttachments(new)
	if before == after && wasLimited == isLimited {
		return nil
	}
	for _, pod := range pods.Find(cache.NamespaceIndex, either(old, new).Name) {
		if contract.IsAttached(pod) {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
	}
	return owners
}
