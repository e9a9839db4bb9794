package nodeflows

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// part is where flows hand packets on: a port and a number of recirculation.
type part struct {
	port   string
	number uint32
}

// findReceivers sets the pods of packets that flows drop. No port gets these packets, and a flow that drops them by a policy
// does not always match their address: an earlier flow of their way does.
func findReceivers(flows []numbered, ports []offload.Port) {
	pods := map[string]*flowapi.End{}
	for _, p := range ports {
		if p.MAC == "" {
			continue
		}
		if _, several := pods[p.MAC]; several { // networks may have the same addresses
			pods[p.MAC] = nil
			continue
		}
		end := endOf(p.Name, p.Pod)
		pods[p.MAC] = &end
	}
	into := map[part][]*numbered{}
	for i := range flows {
		for _, next := range flows[i].Next {
			at := part{flows[i].From.Port, next}
			into[at] = append(into[at], &flows[i])
		}
	}
	for i := range flows {
		if flows[i].Drops {
			flows[i].For = receiverOf(&flows[i], into, pods)
		}
	}
}

// receiverOf is the pod of the first address on the way back from a flow; nil: it is not known, or the earlier flows differ.
func receiverOf(last *numbered, into map[part][]*numbered, pods map[string]*flowapi.End) *flowapi.End {
	var found *flowapi.End
	way := []*numbered{last}
	for i := 0; i < len(way); i++ { // the way grows meanwhile
		f := way[i]
		switch pod := pods[f.receiver]; {
		case pod != nil && (found == nil || found == pod):
			found = pod
		case pod != nil:
			return nil
		case f.Recirculation != 0:
			for _, before := range into[part{f.From.Port, f.Recirculation}] {
				if !slices.Contains(way, before) {
					way = append(way, before)
				}
			}
		}
	}
	return found
}
