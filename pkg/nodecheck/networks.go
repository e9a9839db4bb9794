package nodecheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// Refused is an object that would not have its network: the network is another owner's, or the object is beyond a limit.
type Refused struct {
	// Object is kind/namespace/name.
	Object  string `json:"object"`
	Message string `json:"message"`
}

// page is how many objects one answer of the API server has.
const page = 500

// Networks are the NetworkAttachmentDefinitions, pods and Services that the controller of this version would refuse, because
// their network is another owner's, or because a list is beyond its limit. Pods that run keep their network; such a pod is among them all the same.
func Networks(ctx context.Context, client dynamic.Interface) (refused []Refused, err error) {
	world := network.NewDefinitions(nil)
	labels := map[string]map[string]string{}
	world.NamespaceLabels = func(namespace string) map[string]string { return labels[namespace] }
	err = list(ctx, client, corev1.SchemeGroupVersion.WithResource("namespaces"), func(o *unstructured.Unstructured) { labels[o.GetName()] = o.GetLabels() })
	for _, kind := range render.Kinds() {
		err = errors.Join(err, list(ctx, client, kind, func(o *unstructured.Unstructured) {
			world.ObjectChanged(render.OwnerOf(o), network.ReadObject(o))
		}))
	}
	var nads []string
	err = errors.Join(err, list(ctx, client, schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"},
		func(o *unstructured.Unstructured) {
			nad := network.ReadNAD(o)
			nads = append(nads, nad.Key)
			world.NADChanged(nad.Key, nad)
		}))
	note := func(object string, problem error) {
		if errors.As(problem, new(network.RefusedError)) || errors.As(problem, new(contract.LimitError)) {
			refused = append(refused, Refused{object, problem.Error()})
		}
	}
	for _, nad := range nads {
		note(contract.KindNAD+"/"+nad, world.NADProblem(nad))
	}
	access := network.Access{Of: world}
	err = errors.Join(err,
		list(ctx, client, corev1.SchemeGroupVersion.WithResource("pods"), func(o *unstructured.Unstructured) { note("Pod/"+keyOf(o), podProblem(access, o)) }),
		list(ctx, client, corev1.SchemeGroupVersion.WithResource("services"), func(o *unstructured.Unstructured) { note("Service/"+keyOf(o), serviceProblem(access, o)) }))
	slices.SortFunc(refused, func(a, b Refused) int { return strings.Compare(a.Object, b.Object) })
	return refused, err
}

func keyOf(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// podProblem says which networks a pod like this one would not get.
func podProblem(access network.Access, object *unstructured.Unstructured) error {
	if object.GetAnnotations()[contract.PodNetworksKey] == "" && object.GetAnnotations()[contract.NetworksKey] == "" {
		return nil
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pod); err != nil {
		return fmt.Errorf("reading pod %s: %w", keyOf(object), err)
	}
	pod.Status.PodIPs = nil // as if it were made now
	_, asked := access.Requests(&pod)
	var primary error
	if strings.Contains(pod.Annotations[contract.PodNetworksKey], string(contract.RoleLocked)) {
		_, primary = access.PrimaryOf(&pod)
	}
	return errors.Join(asked, primary)
}

func serviceProblem(access network.Access, service *unstructured.Unstructured) error {
	nad := service.GetAnnotations()[contract.ServiceNetworkKey]
	switch {
	case nad == "":
		return nil
	case !strings.Contains(nad, "/"):
		nad = service.GetNamespace() + "/" + nad
	}
	return access.Refusal(nad, service.GetNamespace())
}

// list reads all objects of a kind. A kind that the API server does not have has none.
func list(ctx context.Context, client dynamic.Interface, kind schema.GroupVersionResource, take func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{Limit: page}
	for {
		found, err := client.Resource(kind).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", kind.Resource, err)
		}
		for i := range found.Items {
			take(&found.Items[i])
		}
		if options.Continue = found.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
