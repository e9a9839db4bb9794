package answer

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// eventsFor is how long a Warning counts as a problem after it was last seen: the network's processes repeat them hourly.
const eventsFor = 65 * time.Minute

// maxRegarded bounds the objects that are looked for, because Warnings are about them.
const maxRegarded = 64

// Regarded selects the objects that Warnings are about, by their names, but for those of which a status reads all.
func Regarded(s *snapshot.Snapshot) (map[snapshot.Resource][]snapshot.Selected, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	lists, n := map[snapshot.Resource][]snapshot.Selected{}, 0
	for _, e := range warnings(f.events, f.taken) {
		r := snapshot.OfKind(e.Regarding.Kind)
		of := snapshot.Selected{Namespace: e.Regarding.Namespace, Fields: "metadata.name=" + e.Regarding.Name}
		if r == "" || slices.Contains(StatusResources(), r) || slices.Contains(lists[r], of) {
			continue
		}
		if n++; n > maxRegarded { // of a resource either all that Warnings are about are looked for, or none
			delete(lists, r)
			continue
		}
		lists[r] = append(lists[r], of)
	}
	return lists, nil
}

// warnings are those of the network's processes that were seen lately, the newest first.
func warnings(events []eventsv1.Event, now time.Time) (out []eventsv1.Event) {
	for _, e := range events {
		if e.Type == corev1.EventTypeWarning && now.Sub(lastSeen(e)) <= eventsFor && e.Reason != "OutsideHardware" { // NodeOffload says the latter better
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b eventsv1.Event) int { return lastSeen(b).Compare(lastSeen(a)) })
	return out
}

// eventProblems are the Warnings that are not over: of an object and a reason the newest. Of an object with conditions these say it.
func (f *facts) eventProblems() (out []Problem) {
	recovered := map[corev1.ObjectReference]time.Time{}
	for _, e := range f.events {
		if at := lastSeen(e); e.Reason == "NetworkRecovered" && at.After(recovered[named(e)]) {
			recovered[named(e)] = at
		}
	}
	seen := map[[2]string]bool{}
	for _, e := range warnings(f.events, f.taken) {
		if e.Reason == "NetworkFailed" && !lastSeen(e).After(recovered[named(e)]) {
			continue
		}
		conditions, isOver := conditionsOf(e, f.objects)
		key := [2]string{regarded(e), e.Reason}
		if len(conditions) > 0 {
			key[1] = "conditions"
		}
		if isOver || seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, problemOf(e, conditions))
	}
	return out
}

// conditionsOf are the conditions of the object of an Event that are not as they should be. The Event is over where its object is gone, or
// is another one of that name, or has conditions and all are as they should be.
func conditionsOf(e eventsv1.Event, in *snapshot.Snapshot) (wrong []metav1.Condition, isOver bool) {
	r, namespace := snapshot.OfKind(e.Regarding.Kind), e.Regarding.Namespace
	if r == snapshot.Nodes { // Events about Nodes are in a namespace, and Nodes are in none
		namespace = ""
	}
	object := snapshot.Find(in.Shared(r), namespace, e.Regarding.Name)
	if object == nil {
		return nil, r != "" && in.Known[r]
	}
	if uid := object.UID(); uid != "" && e.Regarding.UID != "" && uid != string(e.Regarding.UID) && string(e.Regarding.UID) != e.Regarding.Name { // some give the names of Nodes for UIDs
		return nil, true
	}
	if r != snapshot.UserDefinedNetworks && r != snapshot.ClusterUserDefinedNetworks && r != snapshot.NamespaceSubnets {
		return nil, false // others have conditions about other things
	}
	conditions := object.Conditions()
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse {
			wrong = append(wrong, c)
		}
	}
	return wrong, len(conditions) > 0 && len(wrong) == 0
}

// problemOf is an Event as a problem, or the first condition of its object in its place.
func problemOf(e eventsv1.Event, wrong []metav1.Condition) Problem {
	p := Problem{Severity: SeverityDegraded, Objects: []string{regarded(e)}, Message: e.Reason + ": " + e.Note, See: e.Reason}
	since := e.EventTime.UTC().Truncate(time.Second)
	if len(wrong) > 0 {
		p.Message, since = wrong[0].Reason+": "+wrong[0].Message, wrong[0].LastTransitionTime.UTC()
	}
	p.Since = &since
	return p
}

// regarded is the object of an Event as answers name objects.
func regarded(e eventsv1.Event) string {
	object := strings.ToLower(e.Regarding.Kind) + "/"
	if e.Regarding.Namespace != "" && e.Regarding.Kind != "Node" {
		object += e.Regarding.Namespace + "/"
	}
	return object + e.Regarding.Name
}

func lastSeen(e eventsv1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return e.EventTime.Time
}

// named is the object of an Event without what differs between Events.
func named(e eventsv1.Event) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: e.Regarding.Kind, Namespace: e.Regarding.Namespace, Name: e.Regarding.Name}
}
