package relay

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// denied is said of what a caller may not see.
const denied = flowapi.DeniedNodes

// restrictWant leaves of what a view wants only what the caller may see: the rest is not read. A pod or a node that is not the caller's
// to see is one that there is not.
func restrictWant(want web.Want, sight *Sight) (web.Want, error) {
	if want.Pod != "" {
		if namespace, _, _ := strings.Cut(want.Pod, "/"); !sight.Pods(namespace) {
			return want, answer.ErrNotFound{Object: "pod " + want.Pod}
		}
	}
	if want.Node != "" && !sight.Nodes {
		return want, answer.ErrNotFound{Object: "node " + want.Node}
	}
	want.Namespaces = slices.DeleteFunc(slices.Clone(want.Namespaces), func(namespace string) bool { return !sight.Pods(namespace) })
	return want, nil
}

// Restrict leaves of a snapshot what a caller may see. What is left out because of rights is in Missing.
func Restrict(s *snapshot.Snapshot, sight *Sight) *snapshot.Snapshot {
	if sight.Nodes && sight.All {
		return s
	}
	r := restriction{sight: sight, hosts: map[string]bool{}}
	out := s.Only()
	for _, resource := range snapshot.All() {
		if why, ok := s.Missing[resource]; ok {
			out.Missing[resource] = why
		}
	}
	// pods first: the nodes that they are on are then known
	for _, resource := range []snapshot.Resource{snapshot.Pods, snapshot.Services, snapshot.NetworkPolicies, snapshot.Events, snapshot.NodeOffloads} {
		for _, object := range s.Shared(resource) {
			r.add(out, resource, object)
		}
	}
	for _, resource := range []snapshot.Resource{snapshot.Nodes, snapshot.Leases, snapshot.Deployments, snapshot.DaemonSets, snapshot.StatefulSets, snapshot.OffloadPolicies} {
		switch objects := s.Shared(resource); {
		case sight.Nodes:
			for _, object := range objects {
				out.AddShared(resource, object)
			}
		case len(objects) > 0:
			out.Missing[resource] = denied
		}
	}
	return out // without PhysicalNetworks, which name namespaces
}

type restriction struct {
	sight *Sight
	// hosts are the nodes of pods that the caller may see.
	hosts map[string]bool
}

// add adds what the caller may see of an object.
func (r restriction) add(to *snapshot.Snapshot, resource snapshot.Resource, o *snapshot.Object) {
	namespace, _, _ := unstructured.NestedString(o.Fields(), "metadata", "namespace")
	switch resource {
	case snapshot.NodeOffloads:
		if kept := r.nodeOffload(o.Fields()); kept != nil {
			to.AddTrimmed(resource, kept)
		}
		return
	case snapshot.Pods:
		if !r.sight.Pods(namespace) {
			return
		}
		host, _, _ := unstructured.NestedString(o.Fields(), "spec", "nodeName")
		r.hosts[host] = true
	case snapshot.Services, snapshot.NetworkPolicies:
		if !r.sight.Pods(namespace) {
			return
		}
	case snapshot.Events:
		about, _, _ := unstructured.NestedString(o.Fields(), "regarding", "namespace")
		if !r.sight.Pods(about) && (about != "" || !r.sight.Nodes || !r.sight.All) {
			return
		}
	default:
		return
	}
	to.AddShared(resource, o)
}

// nodeOffload leaves the caller's own pods, and the node's facts if he may see them.
func (r restriction) nodeOffload(object map[string]any) map[string]any {
	status, _ := object["status"].(map[string]any)
	used, foreign := r.pods(status["usedVFs"])
	traffic, more := r.pods(status["traffic"])
	foreign = append(foreign, more...)
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	kept := map[string]any{}
	if r.sight.Nodes {
		for key, value := range status {
			kept[key] = without(value, foreign)
		}
	} else if len(used)+len(traffic) == 0 && !r.hosts[name] {
		return nil
	} else {
		kept["offload"], kept["deviceCount"] = status["offload"], status["deviceCount"]
	}
	kept["usedVFs"], kept["traffic"] = used, traffic
	for key, list := range map[string][]any{"usedVFs": used, "traffic": traffic} {
		all, _ := status[key].([]any)
		omitted, _ := status[key+"Omitted"].(int64)
		kept[key+"Omitted"] = omitted + int64(len(all)-len(list))
	}
	return map[string]any{
		"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": map[string]any{"name": name}, "status": kept,
	}
}

// pods divides a list of objects with a field pod into the caller's and the names of the others'.
func (r restriction) pods(list any) (own []any, foreign []string) {
	entries, _ := list.([]any)
	own = []any{}
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		pod, _ := fields["pod"].(string)
		namespace, _, _ := strings.Cut(pod, "/")
		if r.sight.Pods(namespace) {
			own = append(own, entry)
		} else if pod != "" {
			foreign = append(foreign, pod)
		}
	}
	return own, foreign
}

// without drops texts that name a pod that the caller may not see. Objects of lists lose the field alone.
func without(value any, foreign []string) any {
	switch v := value.(type) {
	case string:
		if slices.ContainsFunc(foreign, func(pod string) bool { return strings.Contains(v, pod) }) {
			return withheld
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = without(v[i], foreign)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = without(v[key], foreign)
		}
		return out
	}
	return value
}
