// Package v1alpha1 has the types of the API group ovn-offload.io: NodeOffload,
// which an agent writes about its node, and OffloadPolicy, which says how the
// NICs of nodes are to be set up.
//
// Place in the data flow:
//
//	pkg/nodeoffload -> NodeOffload -> API -> kubectl get nodeoffloads
//	API -> OffloadPolicy -> pkg/vf/setup
//
// The chart's CRDs are made from these types by hack/crds. A comment of a field is its description in kubectl explain and in
// docs/api.md, so that it begins with the name of the field in JSON and is written for users; markers (+kubebuilder:...)
// are validation and columns. The objects are few, so that the dynamic client serves and no clients are generated.
//
// +groupName=ovn-offload.io
package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the group of the API.
const Group = "ovn-offload.io"

// Version is the group's version, as in apiVersion.
const Version = "ovn-offload.io/v1alpha1"

// NodeOffloads is the resource of NodeOffload.
func NodeOffloads() schema.GroupVersionResource { return resource("nodeoffloads") }

// OffloadPolicies is the resource of OffloadPolicy.
func OffloadPolicies() schema.GroupVersionResource { return resource("offloadpolicies") }

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: "v1alpha1", Resource: name}
}

// Decode reads one of the types from what the dynamic client gives.
func Decode[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return out, nil
}

// Encode writes one of the types, as a pointer, for the dynamic client.
func Encode(object any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("writing %T: %w", object, err)
	}
	return &unstructured.Unstructured{Object: fields}, nil
}
