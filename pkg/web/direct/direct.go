// Package direct has the facts of the page that a user's own rights give, or an archive.
//
// Place in the data flow:
//
//	API server (snapshot.Lister), agents and databases of OVN by exec -> Facts -> pkg/web
//	archive of kubectl offload sysdump -> Facts -> pkg/web
//
// It is a package of its own because pkg/web knows no client. The other one with facts is pkg/relay.
package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// Refresh is how old facts get while a view is open.
const Refresh = 10 * time.Second

// Config says where facts are from.
type Config struct {
	// Archive, if set, is in place of a cluster.
	Archive *snapshot.Snapshot
	From    snapshot.Lister
	// System is the namespace of the network's own pods.
	System string
	// Trace computes a path.
	Trace func(ctx context.Context, from, to string) (*answer.Traced, error)
	// Live reads the flows of a path, from an archive, too.
	Live func(ctx context.Context, from, to string) (*answer.Live, error)
	// Flows asks the agents of nodes, which are among the pods, and the databases for the names of flows.
	Flows func(ctx context.Context, pods []corev1.Pod, nodes []string, q flowapi.Query) ([]*flowapi.Flows, []string, error)
}

// Facts implements web.Facts.
type Facts struct {
	Config

	mu   sync.Mutex
	kept map[string]*entry
}

// New knows nothing yet.
func New(cfg Config) *Facts { return &Facts{Config: cfg, kept: map[string]*entry{}} }

// entry is what was read for one view.
type entry struct {
	mu    sync.Mutex
	value any
	until time.Time
}

// remember reads something once for all views that want the same, until it is too old. What a view has read that was closed
// meanwhile is not whole, also where it is no error.
func remember[T any](ctx context.Context, f *Facts, key string, read func() (T, error)) (T, error) {
	f.mu.Lock()
	e := f.kept[key]
	if e == nil {
		maps.DeleteFunc(f.kept, func(_ string, old *entry) bool { // views that are closed
			if !old.mu.TryLock() {
				return false
			}
			defer old.mu.Unlock()
			return time.Now().After(old.until.Add(Refresh))
		})
		e = &entry{until: time.Now()}
		f.kept[key] = e
	}
	f.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if value, ok := e.value.(T); ok && time.Now().Before(e.until) {
		return value, nil
	}
	value, err := read()
	if err == nil && ctx.Err() == nil {
		e.value, e.until = value, time.Now().Add(Refresh)
	}
	return value, err
}

// Snapshot implements web.Facts.
func (f *Facts) Snapshot(ctx context.Context, want web.Want) (*snapshot.Snapshot, error) {
	if f.Archive != nil {
		return f.Archive, nil
	}
	return remember(ctx, f, fmt.Sprintf("snapshot %+v", want), func() (*snapshot.Snapshot, error) {
		if want.Pod != "" {
			return snapshot.ReadPod(ctx, f.From, f.System, want.Pod)
		}
		return snapshot.ReadLists(ctx, f.From, f.System, f.lists(want)), nil
	})
}

// lists are those of a view. Pods are those of the namespaces or the node that are meant: to read all takes too long.
func (f *Facts) lists(want web.Want) map[snapshot.Resource][]snapshot.Selected {
	lists := map[snapshot.Resource][]snapshot.Selected{}
	for _, r := range want.Resources {
		switch {
		case r != snapshot.Pods && r != snapshot.Services && r != snapshot.NetworkPolicies:
			lists[r] = r.Lists(f.System)
		case r == snapshot.Pods && want.Node != "":
			lists[r] = []snapshot.Selected{{Fields: "spec.nodeName=" + want.Node}}
		default:
			for _, namespace := range want.Namespaces {
				lists[r] = append(lists[r], snapshot.Selected{Namespace: namespace})
			}
		}
	}
	if want.Node != "" {
		maps.Copy(lists, snapshot.OfNode(want.Node, f.System))
	}
	return lists
}

// Trace implements web.Facts.
func (f *Facts) Trace(ctx context.Context, from, to string) (*answer.Traced, error) {
	if f.Archive != nil {
		return nil, errors.New("an archive has no databases of OVN to trace in")
	}
	return remember(ctx, f, "trace "+from+" "+to, func() (*answer.Traced, error) { return f.Config.Trace(ctx, from, to) })
}

// Live implements web.Facts.
func (f *Facts) Live(ctx context.Context, from, to string) (*answer.Live, error) {
	return remember(ctx, f, "live "+from+" "+to, func() (*answer.Live, error) { return f.Config.Live(ctx, from, to) })
}

// Traffic implements web.Facts: only a relay adds it up.
func (*Facts) Traffic(context.Context) (*web.Traffic, error) { return nil, web.ErrNoRelay }

// maxFlows bounds the rows of a view.
const maxFlows = 200

// Flows implements web.Facts.
func (f *Facts) Flows(ctx context.Context, pod, node string) (*web.FlowList, error) {
	if f.Archive != nil {
		return f.archived(pod, node)
	}
	return remember(ctx, f, "flows "+pod+" "+node, func() (*web.FlowList, error) {
		if pod != "" {
			s, err := f.Snapshot(ctx, web.Want{Pod: pod})
			if err != nil {
				return nil, err
			}
			if node, err = web.HostOf(s, pod); err != nil {
				return nil, err
			}
		}
		pods, err := f.own(ctx)
		if err != nil {
			return nil, err
		}
		of := queryOf(pod)
		of.Why, of.Limit = true, maxFlows
		answers, missing, err := f.Config.Flows(ctx, pods, []string{node}, of)
		if err != nil {
			return nil, err
		}
		if len(answers) == 0 {
			return nil, errors.New(strings.Join(missing, ", "))
		}
		got := answers[0]
		list := &web.FlowList{Node: node, Taken: got.Taken, Matched: got.Matched, Flows: got.Flows, Missing: missing}
		if pod == "" {
			return list, nil
		}
		if list.Ends, err = f.ends(ctx, pod, node, got.Flows); err != nil {
			return nil, err
		}
		for _, r := range slices.Sorted(maps.Keys(list.Ends.Missing)) {
			list.Missing = append(list.Missing, fmt.Sprintf("%s: %s", r, list.Ends.Missing[r]))
		}
		return list, nil
	})
}

// ends reads what names the ends of a pod's flows.
func (f *Facts) ends(ctx context.Context, pod, node string, flows []flowapi.Flow) (*snapshot.Snapshot, error) {
	nodes, err := f.Snapshot(ctx, web.Want{Resources: []snapshot.Resource{snapshot.Nodes}})
	if err != nil {
		return nil, err
	}
	of, err := f.Snapshot(ctx, web.Want{Pod: pod})
	if err != nil {
		return nil, err
	}
	explained, err := answer.ExplainPod(of, pod)
	if err != nil {
		return nil, err
	}
	explained.Node = node
	pods, err := answer.PodsAtEnds(nodes, explained, flows)
	if err != nil {
		return nil, err
	}
	ends := snapshot.ReadLists(ctx, f.From, f.System, map[snapshot.Resource][]snapshot.Selected{
		snapshot.Pods: pods, snapshot.Services: snapshot.Services.Lists(f.System),
	})
	for _, object := range nodes.Shared(snapshot.Nodes) {
		ends.AddShared(snapshot.Nodes, object)
	}
	return ends, nil
}

// own are all pods of the network itself: its agents, and its databases.
func (f *Facts) own(ctx context.Context) ([]corev1.Pod, error) {
	s, err := f.Snapshot(ctx, web.Want{Resources: []snapshot.Resource{snapshot.Pods}, Namespaces: []string{f.System}})
	if err != nil {
		return nil, err
	}
	if why, ok := s.Missing[snapshot.Pods]; ok {
		return nil, errors.New(why)
	}
	return snapshot.Objects[corev1.Pod](s, snapshot.Pods)
}

func queryOf(pod string) flowapi.Query {
	namespace, name, _ := strings.Cut(pod, "/")
	return flowapi.Query{Namespace: namespace, Pod: name, All: pod == ""}
}

// archived are the flows of an archive.
func (f *Facts) archived(pod, node string) (*web.FlowList, error) {
	if pod != "" {
		var err error
		if node, err = web.HostOf(f.Archive, pod); err != nil {
			return nil, err
		}
	}
	list := &web.FlowList{Node: node, Taken: f.Archive.Taken, Ends: f.Archive, Missing: f.Archive.UnreadFlows(node)}
	for _, flow := range f.Archive.Flows(node) {
		of := func(e flowapi.End) bool { return pod == "" || e.Namespace+"/"+e.Pod == pod }
		if of(flow.From) || slices.ContainsFunc(flow.To, of) {
			list.Flows = append(list.Flows, flow)
		}
	}
	if len(list.Flows) == 0 {
		return nil, web.ErrNoRelay
	}
	slices.SortStableFunc(list.Flows, func(a, b flowapi.Flow) int { return cmp.Compare(b.Packets, a.Packets) })
	list.Matched = len(list.Flows)
	list.Flows = list.Flows[:min(len(list.Flows), maxFlows)]
	return list, nil
}

// Streams implements web.Facts, by the agents of the nodes with pods of the namespaces.
func (f *Facts) Streams(ctx context.Context, namespaces []string) (*web.StreamList, error) {
	if f.Archive != nil {
		return web.NewStreamList(f.Archive, f.Archive.Flows(""), namespaces, f.Archive.UnreadFlows(""))
	}
	return remember(ctx, f, fmt.Sprint("streams ", namespaces), func() (*web.StreamList, error) {
		s, err := f.Snapshot(ctx, web.Want{Resources: answer.FlowResources(), Namespaces: namespaces})
		if err != nil {
			return nil, err
		}
		hosts, left, err := web.Hosts(s, namespaces)
		if err != nil {
			return nil, err
		}
		flows, missing, err := f.ofNamespaces(ctx, hosts, namespaces)
		if err != nil {
			return nil, err
		}
		return web.NewStreamList(s, flows, namespaces, append(left, missing...))
	})
}

// ofNamespaces reads flows. One between two of the namespaces is given twice.
func (f *Facts) ofNamespaces(ctx context.Context, hosts, namespaces []string) (flows []flowapi.Flow, missing []string, err error) {
	pods, err := f.own(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, namespace := range namespaces {
		answers, left, err := f.Config.Flows(ctx, pods, hosts, flowapi.Query{Namespace: namespace, Why: true})
		if err != nil {
			return nil, nil, err
		}
		missing = append(missing, left...)
		for _, got := range answers {
			flows = append(flows, got.Flows...)
		}
	}
	return flows, missing, nil
}
