package nearby

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Live reads the flows between two ends from their nodes. s names the ends, and gets the pods behind a service.
func (r Reader) Live(ctx context.Context, s *snapshot.Snapshot, c trace.Connection) (*answer.Live, error) {
	names, err := answer.Whose(s)
	if err != nil {
		return nil, err
	}
	want := wanted(c, names)
	var flows []flowapi.Flow
	var missing []string
	asked := map[string]bool{}
	for todo := []string{want.From, want.To}; len(todo) > 0; todo = todo[1:] { // the first adds endpoints of a service
		of := todo[0]
		if of == want.From && !strings.HasPrefix(of, "pod/") {
			of = "node/" + c.Node
		} else if !strings.HasPrefix(of, "pod/") {
			continue
		}
		if asked[of] {
			continue
		}
		asked[of] = true
		more, left, err := r.flowsOf(ctx, s, of)
		if err != nil {
			return nil, err
		}
		flows, missing = append(flows, more...), append(missing, left...)
		if names, err = answer.Whose(s); err != nil {
			return nil, err
		}
		todo = append(todo, endpointsOf(want, c, streams.Join(more, names))...)
	}
	l, err := answer.NewLive(s, want, c.Node, flows, missing)
	if err != nil {
		return nil, err
	}
	if err := r.addPolicies(ctx, s, l.DeniedIn()); err != nil {
		return nil, err
	}
	return l, l.AddPolicies(s)
}

// addPolicies reads the NetworkPolicies of namespaces, unless they have been read: only packets that one of them drops need the others.
func (r Reader) addPolicies(ctx context.Context, s *snapshot.Snapshot, namespaces []string) error {
	var of []snapshot.Selected
	for _, namespace := range namespaces {
		of = append(of, snapshot.Selected{Namespace: namespace})
	}
	if isRead := len(s.Shared(snapshot.NetworkPolicies)) > 0 || s.Missing[snapshot.NetworkPolicies] != ""; isRead || r.IsArchive || len(of) == 0 {
		return nil
	}
	read, err := r.Lists(ctx, map[snapshot.Resource][]snapshot.Selected{snapshot.NetworkPolicies: of})
	if err == nil {
		snapshot.Merge(s, read)
	}
	return err
}

// wanted are the ends of a connection as streams have them. What a node or a client outside sends has the target that the packet has
// where it enters OVN.
func wanted(c trace.Connection, names streams.Names) streams.Ends {
	network := cmp.Or(c.Network, contract.DefaultNetwork)
	want := streams.Ends{From: c.From, To: names(network, c.To), Protocol: c.Protocol}
	if !strings.HasPrefix(c.From, "pod/") {
		want.To = names(network, c.Target.Addr().String())
	}
	if c.Protocol != "icmp" {
		want.Port = strconv.Itoa(int(c.Target.Port()))
	} else if c.Source.Is6() || c.Target.Addr().Is6() {
		want.Protocol = "icmp6"
	}
	return want
}

// endpointsOf are those that streams between two ends go to. Those of clients outside and of a node are of any source there.
func endpointsOf(want streams.Ends, c trace.Connection, all []streams.Stream) (out []string) {
	for _, stream := range all {
		from := stream.From == want.From || c.ByGateway && stream.Node == c.Node && !strings.HasPrefix(stream.From, "pod/")
		if from && stream.To == want.To && stream.Via != "" {
			out = append(out, stream.Via)
		}
	}
	return out
}

// flowsOf reads the flows of a pod "pod/namespace/name" from its node, or those of "node/NAME", and adds their ends to the objects.
func (r Reader) flowsOf(ctx context.Context, s *snapshot.Snapshot, of string) ([]flowapi.Flow, []string, error) {
	node, q := strings.TrimPrefix(of, "node/"), flowapi.Query{All: true, Why: true, TC: true}
	if name, isPod := strings.CutPrefix(of, "pod/"); isPod {
		pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
		if err != nil {
			return nil, nil, err
		}
		q = flowapi.Query{Why: true, TC: true}
		q.Namespace, q.Pod, _ = strings.Cut(name, "/")
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Namespace == q.Namespace && p.Name == q.Pod })
		if i < 0 || pods[i].Spec.NodeName == "" {
			return nil, nil, nil
		}
		node = pods[i].Spec.NodeName
	}
	flows, missing, err := r.Flows(ctx, s, node, q)
	if err != nil {
		return nil, nil, err
	}
	return flows, missing, r.AddEnds(ctx, s, flows)
}
