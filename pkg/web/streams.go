package web

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// StreamList are the streams with an end in some namespaces.
type StreamList struct {
	Taken   time.Time
	Streams []streams.Stream
	// Named: it is known which objects decide.
	Named bool
	// Missing is what could not be read.
	Missing []string
}

// NewStreamList joins flows of nodes, of which one may be given several times. s has what names their ends.
func NewStreamList(s *snapshot.Snapshot, flows []flowapi.Flow, namespaces, missing []string) (*StreamList, error) {
	names, err := answer.Whose(s)
	if err != nil {
		return nil, err
	}
	slices.Sort(missing)
	list := &StreamList{Taken: s.Taken, Missing: slices.Compact(missing)}
	seen, once := map[string]bool{}, []flowapi.Flow{}
	for _, f := range flows {
		if key := f.Node + "/" + f.ID; !seen[key] {
			seen[key], once = true, append(once, f)
		}
		list.Named = list.Named || len(f.DecidedBy) > 0
	}
	for _, stream := range streams.Join(once, names) {
		if slices.ContainsFunc(namespaces, func(n string) bool { return answer.Filter{Namespace: n}.Chooses(stream) }) {
			list.Streams = append(list.Streams, stream)
		}
	}
	return list, nil
}

const (
	// maxNamespaces bounds those of one view.
	maxNamespaces = 16
	// maxHosts bounds the nodes whose agents a view asks.
	maxHosts = 64
)

// namespaceName is a label of DNS, as the API server demands.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// namespacesOf are those that a request chooses, sorted.
func namespacesOf(q url.Values) ([]string, error) {
	names := strings.FieldsFunc(q.Get("namespaces"), func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 || len(names) > maxNamespaces {
		return nil, errRequest{fmt.Errorf("want namespaces=NAME,... with at most %d names", maxNamespaces)}
	}
	for _, name := range names {
		if !namespaceName.MatchString(name) {
			return nil, errRequest{errors.New("a namespace has lower case letters, digits and hyphens in its name")}
		}
	}
	return names, nil
}

// HostOf is the node of a pod ("namespace/name").
func HostOf(s *snapshot.Snapshot, pod string) (string, error) {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return "", err
	}
	for _, p := range pods {
		if p.Namespace+"/"+p.Name == pod && p.Spec.NodeName != "" {
			return p.Spec.NodeName, nil
		}
	}
	return "", answer.ErrNotFound{Object: "pod " + pod}
}

// Hosts are the nodes of the pods of namespaces: their agents know the flows. missing says how many are left out.
func Hosts(s *snapshot.Snapshot, namespaces []string) (hosts, missing []string, err error) {
	if hosts, err = NodesOf(s, namespaces); err != nil {
		return nil, nil, err
	}
	if left := len(hosts) - maxHosts; left > 0 {
		hosts, missing = hosts[:maxHosts], []string{fmt.Sprintf("flows of %d nodes: at most %d are asked, choose fewer namespaces", left, maxHosts)}
	}
	return hosts, missing, nil
}

// NodesOf are all nodes of the pods of namespaces.
func NodesOf(s *snapshot.Snapshot, namespaces []string) (nodes []string, err error) {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if slices.Contains(namespaces, pod.Namespace) && !pod.Spec.HostNetwork && pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// WithPods are those of some nodes that have pods of a namespace, and so its flows. All have some for "".
func WithPods(s *snapshot.Snapshot, nodes []string, namespace string) ([]string, error) {
	if namespace == "" {
		return nodes, nil
	}
	hosts, err := NodesOf(s, []string{namespace})
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return !slices.Contains(hosts, node) }), err
}

// workloadOf is the object that made a pod, as kubectl names it: deployment/shop/web.
func workloadOf(pod *corev1.Pod) string {
	for _, owner := range pod.OwnerReferences {
		if owner.Controller != nil && !*owner.Controller {
			continue
		}
		if i := strings.LastIndexByte(owner.Name, '-'); owner.Kind == "ReplicaSet" && i > 0 {
			return "deployment/" + pod.Namespace + "/" + owner.Name[:i]
		}
		return strings.ToLower(owner.Kind) + "/" + pod.Namespace + "/" + owner.Name
	}
	return "pod/" + pod.Namespace + "/" + pod.Name
}

// streamsCommand gives the streams in a terminal.
func streamsCommand(namespaces []string) string {
	if len(namespaces) == 1 {
		return "kubectl offload flows -n " + namespaces[0]
	}
	return "kubectl offload flows"
}
