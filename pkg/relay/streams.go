package relay

import (
	"cmp"
	"context"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// atOnce bounds the agents that are asked at the same time for one view, and maxOfHost the flows that each gives.
const (
	atOnce    = 16
	maxOfHost = 1000
)

// Streams implements web.Facts: those of namespaces in which the caller may see flows.
func (f facts) Streams(ctx context.Context, namespaces []string) (*web.StreamList, error) {
	sight, failed := f.caller.Sight(ctx, PodFlows)
	for _, namespace := range namespaces {
		if !sight.Pods(namespace) {
			return nil, cmp.Or(failed(), web.ErrDenied)
		}
	}
	s, err := f.relay.objects.With(ctx, web.Want{Resources: []snapshot.Resource{snapshot.Pods, snapshot.Services}, Namespaces: namespaces})
	if err != nil {
		return nil, err
	}
	hosts, left, err := web.Hosts(s, namespaces)
	if err != nil {
		return nil, err
	}
	flows, missing := f.relay.flowsOf(ctx, hosts, namespaces)
	list, err := web.NewStreamList(s, flows, namespaces, append(left, missing...))
	if err != nil {
		return nil, err
	}
	list.Streams = restrictStreams(list.Streams, sight)
	return list, failed()
}

// flowsOf asks the agents of hosts for the flows of namespaces. A flow between two of the namespaces is given twice.
func (r *Relay) flowsOf(ctx context.Context, hosts, namespaces []string) (flows []flowapi.Flow, missing []string) {
	agents := r.agents()
	var group errgroup.Group
	group.SetLimit(atOnce)
	var collecting sync.Mutex
	for _, host := range hosts {
		for _, namespace := range namespaces {
			group.Go(func() error {
				got, why := r.hostFlows(ctx, agents, sharedKey{host, flowapi.Query{Namespace: namespace, Limit: maxOfHost}})
				collecting.Lock()
				defer collecting.Unlock()
				if why != "" {
					missing = append(missing, why)
				}
				for _, f := range got {
					f.Node = host
					flows = append(flows, f)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // none fails
	return flows, missing
}

func (r *Relay) hostFlows(ctx context.Context, agents map[string]flowapi.Source, key sharedKey) (flows []flowapi.Flow, missing string) {
	source, ok := agents[key.node]
	if !ok {
		return nil, "flows: a node has no agent that serves them"
	}
	got, _, err := r.shared.get(ctx, source, key)
	if err != nil {
		return nil, "flows: the agent of a node does not answer" // its address is not for all to see
	}
	if got.Matched > len(got.Flows) {
		missing = "flows: those with the fewest packets of a node are left out"
	}
	return got.Flows, missing
}

// restrictStreams leaves of streams what a caller may see: those with an end that is his, without the names of others. It lists
// what is given, so that a field that is added later is withheld.
func restrictStreams(all []streams.Stream, sight *Sight) []streams.Stream {
	if sight.All {
		return all
	}
	his := func(end string) bool {
		parts := strings.Split(end, "/")
		return len(parts) == 3 && sight.Pods(parts[1])
	}
	shown := func(end string) string {
		switch _, err := netip.ParsePrefix(end); {
		case err == nil, end == "":
			return "" // it is that of any packet
		case his(end):
			return end
		}
		return withheld
	}
	var out []streams.Stream
	numbers := map[string]string{} // in place of the names of nodes
	for _, s := range all {
		if !his(s.From) && !his(s.To) && !his(s.Via) {
			continue
		}
		if numbers[s.Node] == "" {
			numbers[s.Node] = strconv.Itoa(len(numbers) + 1)
		}
		out = append(out, streams.Stream{
			Node: numbers[s.Node], Ends: streams.Ends{From: shown(s.From), To: shown(s.To), Via: shown(s.Via), Protocol: s.Protocol, Port: s.Port},
			Placed: flowapi.Placed{Place: s.Place, Reason: s.Reason}, Packets: s.Packets, Bytes: s.Bytes, PacketsPerSecond: s.PacketsPerSecond,
			Drops: s.Drops, Direction: s.Direction, Tunnel: masked(s.Tunnel),
		})
	}
	return out
}

// masked says only that there is a text.
func masked(text string) string {
	if text == "" {
		return ""
	}
	return withheld
}
