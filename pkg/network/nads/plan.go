package nads

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// listed bounds the names in a message.
const listed = 20

// place is what there is of a network in one namespace.
type place struct {
	namespace string
	// ends says that the namespace is being deleted, or is gone.
	ends bool
	// isWanted says that the object asks for the network here, and that the namespace stays.
	isWanted bool
	// isLabelled says that the namespace may have a primary network.
	isLabelled bool
	// nad has the network's name; nil: there is none.
	nad *unstructured.Unstructured
	// pods use it.
	pods []contract.Owner
	// primary is another primary network of the namespace, or "".
	primary string
}

// plan is what is to be done for an object, and what cannot be done.
type plan struct {
	create, update, release []*unstructured.Unstructured
	// kept are NADs that are as they should be.
	kept []*unstructured.Unstructured
	// problems are sentences for the condition; gone are NADs that a user deletes.
	problems, gone []string
	// waits are the Namespaces and pods whose changes may solve a problem.
	waits []contract.Owner
}

// newPlan compares an object with what there is in its namespaces.
func newPlan(source *render.Source, places []place) (plan, error) {
	var p plan
	isLeaving := source.Object.GetDeletionTimestamp() != nil
	if source.Refused != "" && !isLeaving {
		p.problems = append(p.problems, source.Refused)
	}
	for _, at := range places {
		isOurs := at.nad != nil && metav1.IsControlledBy(at.nad, source.Object)
		switch {
		case isOurs && !isLeaving && isKept(source, at):
			p.kept = append(p.kept, at.nad)
		case isOurs && (!at.isWanted || at.nad.GetDeletionTimestamp() != nil):
			p.leave(at)
		case at.isWanted && !p.isRefused(source, at, isOurs):
			want, err := source.NAD(at.namespace)
			if err != nil {
				return p, err
			}
			p.keep(at.nad, want)
		}
	}
	return p, nil
}

// isKept says that a namespace goes on having its NAD, because it is not known whether the object selects the namespace.
func isKept(source *render.Source, at place) bool {
	return source.Keeps && !at.ends && at.nad.GetDeletionTimestamp() == nil
}

// isRefused says that an object cannot have its NAD in a namespace, and notes why.
func (p *plan) isRefused(source *render.Source, at place, isOurs bool) bool {
	switch {
	case source.Refused != "":
		// newPlan has noted it
	case at.nad != nil && !isOurs:
		p.refuse(at, "foreign NetworkAttachmentDefinition %s/%s has the name of the network: the controller leaves it alone", at.namespace, source.Owner.Name)
	case source.IsPrimary && !at.isLabelled:
		p.refuse(at, "namespace %s does not have the label %s, which a primary network needs and which can only be set when a namespace is created",
			at.namespace, contract.PrimaryNetworkLabel)
	case source.IsPrimary && at.nad == nil && at.primary != "":
		p.refuse(at, "primary network already exists in namespace %s: %s", at.namespace, at.primary)
	default:
		return false
	}
	return true
}

func (p *plan) refuse(at place, format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
	p.waits = append(p.waits, contract.Owner{Kind: kindNamespace, Name: at.namespace})
}

// leave removes a NAD of ours when no pod uses it. A user may have begun to delete the NAD.
func (p *plan) leave(at place) {
	if at.isWanted {
		p.gone = append(p.gone, at.namespace+"/"+at.nad.GetName())
	}
	if len(at.pods) == 0 {
		p.release = append(p.release, at.nad)
		return
	}
	var names []string
	for _, pod := range at.pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(names) // the same pods are the same problem
	p.problems = append(p.problems, "network in use by pods: "+some(names))
	p.waits = append(p.waits, at.pods...)
}

func (p *plan) keep(have, want *unstructured.Unstructured) {
	if have == nil {
		p.create = append(p.create, want)
		return
	}
	if next := merge(have, want); !equality.Semantic.DeepEqual(have.Object, next.Object) {
		p.update = append(p.update, next)
		return
	}
	p.kept = append(p.kept, have)
}

// merge gives a NAD what is rendered, and leaves what is others': annotations of OVN-Kubernetes, finalizers, further owners.
func merge(have, want *unstructured.Unstructured) *unstructured.Unstructured {
	next := have.DeepCopy()
	next.Object["spec"] = want.DeepCopy().Object["spec"]
	next.SetLabels(want.GetLabels())
	annotations := maps.Clone(want.GetAnnotations())
	for key, value := range have.GetAnnotations() {
		if strings.HasPrefix(key, contract.OVNPrefix) {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[key] = value
		}
	}
	if !maps.Equal(annotations, have.GetAnnotations()) {
		next.SetAnnotations(annotations)
	}
	if !slices.Contains(have.GetFinalizers(), contract.NetworkFinalizer) {
		next.SetFinalizers(append(have.GetFinalizers(), contract.NetworkFinalizer))
	}
	return next
}

// some names the first of many.
func some(names []string) string {
	if len(names) <= listed {
		return "[" + strings.Join(names, ", ") + "]"
	}
	return fmt.Sprintf("[%s and %d more]", strings.Join(names[:listed], ", "), len(names)-listed)
}
