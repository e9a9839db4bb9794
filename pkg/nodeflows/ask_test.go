package nodeflows

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// placed are the flows of a node.
type placed map[string]flowapi.Placed

func (placed) Summary(context.Context, bool) (*flowapi.Summary, error) {
	return nil, errors.ErrUnsupported
}
func (placed) Why(context.Context, string) (*flowapi.Why, error) { return nil, errors.ErrUnsupported }
func (p placed) Flows(_ context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	out := &flowapi.Flows{}
	for id, at := range p {
		if q.All && q.Limit == flowapi.MaxLimit {
			out.Flows = append(out.Flows, flowapi.Flow{ID: id, From: flowapi.End{Port: "rep1"}, Placed: at})
		}
	}
	return out, nil
}

// TestAsk_OffersRulesOfRefusedFlowsAlone: of all others it says why not, and offers nothing.
func TestAsk_OffersRulesOfRefusedFlowsAlone(t *testing.T) {
	flows := placed{
		"refused": {Place: offload.TC, Reason: offload.ReasonRefused}, "hardware": {Place: offload.Hardware},
		"order": {Place: offload.TC, Reason: offload.ReasonSoftware}, "veth": {Place: offload.OVS, Reason: offload.ReasonPort},
		"skip_sw": {Place: offload.OVS, Reason: offload.ReasonRefused},
	}
	for name, c := range map[string]struct {
		id      string
		answer  tcrule.Answer
		err     error
		want    *flowapi.Asked
		fails   error
		offered int
	}{
		"refused": {
			id: "refused", answer: tcrule.Answer{Priority: 16, Errno: unix.EOPNOTSUPP, Text: "swsim: no"}, offered: 1,
			want: &flowapi.Asked{ID: "refused", Port: "rep1", Priority: 16, Text: "swsim: no", Error: "operation not supported"},
		},
		"taken now": {
			id: "refused", answer: tcrule.Answer{Priority: 16, Taken: true}, offered: 1,
			want: &flowapi.Asked{ID: "refused", Port: "rep1", Priority: 16, Taken: true},
		},
		"without a rule": {
			id: "refused", err: tcrule.ErrNoRule, offered: 1,
			want: &flowapi.Asked{ID: "refused", Port: "rep1", Problem: "TC has no rule of the flow on rep1 now"},
		},
		"taken meanwhile": {
			id: "refused", err: tcrule.ErrInHardware, offered: 1,
			want: &flowapi.Asked{ID: "refused", Port: "rep1", Problem: "the NIC has taken the flow meanwhile"},
		},
		"of another error": {id: "refused", err: unix.EPERM, offered: 1, fails: unix.EPERM},
		"in hardware":      {id: "hardware", want: &flowapi.Asked{ID: "hardware", Port: "rep1", Problem: "the flow is in hardware"}},
		"by order": {id: "order", want: &flowapi.Asked{
			ID: "order", Port: "rep1", Problem: "the driver has not refused the flow: it is not in hardware because of software-by-order",
		}},
		"from a veth": {id: "veth", want: &flowapi.Asked{
			ID: "veth", Port: "rep1", Problem: "the driver has not refused the flow: it is not in hardware because of port",
		}},
		"with skip_sw": {id: "skip_sw", want: &flowapi.Asked{
			ID: "skip_sw", Port: "rep1", Problem: "TC has no rule of the flow: with tc-policy=skip_sw the kernel keeps none that the driver refused. " +
				"The log of ovs-vswitchd at level debug of netlink_socket has the driver's text",
		}},
		"never was": {id: "other", fails: flowapi.ErrNoFlow},
	} {
		offered := 0
		got, err := Ask(t.Context(), flows, func(link, flow string) (tcrule.Answer, error) {
			offered++
			if link != "rep1" || flow != c.id {
				t.Errorf("%s: offered %s on %s", name, flow, link)
			}
			return c.answer, c.err
		}, c.id)
		if !errors.Is(err, c.fails) || offered != c.offered {
			t.Errorf("%s: %v, offered %d times", name, err, offered)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
