package nads

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// The conditions.
const (
	conditionCreated   = "NetworkCreated"
	conditionAllocated = "NetworkAllocationSucceeded"
	conditionTransport = "TransportAccepted"
	conditionReachable = "ExternallyReachable"
)

const messageCreated = "NetworkAttachmentDefinition has been created"

// maxMessage is the API's limit for the message of a condition, less some room.
const maxMessage = 32000

// outcome is what was done for an object.
type outcome struct {
	plan
	// err is what the API server refused.
	err error
	// allocation says what is wrong with the addresses or ids of the network; isAllocated, that all has them.
	allocation  []string
	isAllocated bool
	// isPending says that it is not known yet whether all NADs make a network; unreachable, why others do not reach a network.
	isPending   bool
	unreachable []string
}

// conditions are those of an object with this outcome. Those that nothing is known of stay.
func conditions(source *render.Source, o outcome, now []metav1.Condition) []metav1.Condition {
	next := slices.Clone(now)
	set := func(c metav1.Condition) {
		c.ObservedGeneration = source.Object.GetGeneration()
		if len(c.Message) > maxMessage {
			c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "..."
		}
		meta.SetStatusCondition(&next, c)
	}
	if c := created(source, o); c.Status == metav1.ConditionFalse || !o.isPending {
		set(c)
	}
	switch {
	case len(o.allocation) > 0:
		set(metav1.Condition{Type: conditionAllocated, Status: metav1.ConditionFalse, Reason: "InternalError", Message: strings.Join(o.allocation, "; ")})
	case o.isAllocated:
		set(metav1.Condition{Type: conditionAllocated, Status: metav1.ConditionTrue, Reason: "NetworkAllocationSucceeded", Message: "Network allocation succeeded for all synced nodes."})
	}
	switch {
	case len(o.unreachable) > 0:
		set(metav1.Condition{Type: conditionReachable, Status: metav1.ConditionFalse, Reason: "SubnetsOverlap", Message: sentences(o.unreachable)})
	case !o.isPending && meta.FindStatusCondition(now, conditionReachable) != nil:
		set(metav1.Condition{Type: conditionReachable, Status: metav1.ConditionTrue, Reason: "SubnetsRouted", Message: "The subnets of the network are its own."})
	}
	if source.Transport != "" {
		set(metav1.Condition{
			Type: conditionTransport, Status: metav1.ConditionFalse, Reason: "RouteAdvertisementsNotEnabled",
			Message: fmt.Sprintf("transport %s needs RouteAdvertisements, which this release does not have", source.Transport),
		})
	}
	return next
}

func created(source *render.Source, o outcome) metav1.Condition {
	c := metav1.Condition{Type: conditionCreated, Status: metav1.ConditionFalse, Reason: "SyncError"}
	if source.Owner.Kind == ovnv1.KindClusterUserDefinedNetwork {
		c.Reason = "NetworkAttachmentDefinitionSyncError"
	}
	problems := o.problems
	if o.err != nil {
		problems = append(slices.Clone(problems), o.err.Error())
	}
	switch {
	case len(problems) > 0:
		c.Message = sentences(problems)
	case len(o.gone) > 0:
		c.Reason, c.Message = "NetworkAttachmentDefinitionDeleted", "NetworkAttachmentDefinition is being deleted: "+some(o.gone)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "NetworkAttachmentDefinitionCreated"
		c.Message = messageCreated
		if source.Selector != nil {
			var namespaces []string
			for _, nad := range slices.Concat(o.kept, o.create, o.update) {
				namespaces = append(namespaces, nad.GetNamespace())
			}
			slices.Sort(namespaces)
			c.Message += " in following namespaces: " + some(namespaces)
		}
	}
	return c
}

// sentences are problems, each once.
func sentences(problems []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(problems))), "; ")
}

// look finds out whether the allocator has done its part: it records the name of a network on each NAD, or has a problem
// with the NAD, which is then a problem of the object. Nodes without a part of the network are further problems.
func (o *outcome) look(verdict func(nad *unstructured.Unstructured) Verdict, nodes []string) {
	slices.Sort(nodes)
	o.allocation = nodes
	all := slices.Concat(o.kept, o.update)
	o.isAllocated = len(all) > 0 && len(o.create) == 0
	o.isPending = len(o.create)+len(o.update) > 0
	for _, nad := range all {
		found := verdict(nad)
		o.isPending = o.isPending || !found.IsKnown
		if err := found.Refused; err != nil {
			o.problems = append(o.problems, err.Error())
			o.allocation = append(o.allocation, "NetworkAttachmentDefinition "+keyOf(nad)+": "+err.Error())
		}
		if err := found.Unreachable; err != nil {
			o.unreachable = append(o.unreachable, err.Error())
		}
		o.isAllocated = o.isAllocated && nad.GetAnnotations()[contract.NetworkNameKey] != ""
	}
}
