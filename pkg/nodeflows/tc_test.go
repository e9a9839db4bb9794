package nodeflows

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
)

// TestSource_FindsTheRuleOfTCByTheUFID: only if it is asked for, of flows that are in TC, and once for the flows of a port. Rules of
// other flows are not taken, and what cannot be read is said.
func TestSource_FindsTheRuleOfTCByTheUFID(t *testing.T) {
	const second, third = "aaaaaaaa-0000-0000-0000-000000000002", "aaaaaaaa-0000-0000-0000-000000000003"
	rules := map[string][]tcrule.Rule{
		"genev_sys_6081": {
			{Flow: second, Chain: 5, Priority: 2, Handle: 1, InHardware: true, Hardware: 41},
			{Flow: third, Priority: 9, Handle: 9}, // of another port
		},
	}
	none := &flowapi.TCRule{Problem: "TC has no rule of the flow on rep1 now"}
	found := &flowapi.TCRule{Device: "genev_sys_6081", Chain: 5, Priority: 2, Handle: 1, InHardware: true, Packets: 41}
	for name, c := range map[string]struct {
		q     flowapi.Query
		fails error
		want  map[string]*flowapi.TCRule
		read  int
	}{
		"not asked for": {q: flowapi.Query{Why: true}, want: map[string]*flowapi.TCRule{}},
		"asked for":     {q: flowapi.Query{Why: true, TC: true}, want: map[string]*flowapi.TCRule{second: found, third: none}, read: 2},
		"not readable": {
			q: flowapi.Query{Why: true, TC: true}, fails: errors.New("no such link"), read: 2,
			want: map[string]*flowapi.TCRule{second: {Problem: "no such link"}, third: {Problem: "no such link"}},
		},
	} {
		s := testSource(&vswitchd{detrace: func([]string) (string, error) {
			return "cookie=0x1, table_id=5, duration=1s, priority=7,ip,actions=drop", nil
		}})
		read := 0
		s.cfg.Rules = func(port string) ([]tcrule.Rule, error) {
			read++
			if c.fails != nil {
				return nil, c.fails
			}
			return rules[port], nil
		}
		flows, err := s.Flows(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]*flowapi.TCRule{}
		for _, f := range flows.Flows {
			if f.Why.TC != nil {
				got[f.ID] = f.Why.TC
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || read != c.read {
			t.Errorf("%s: read %d times, want %d: -want +got\n%s", name, read, c.read, diff)
		}
		if why, err := s.Why(t.Context(), second); err != nil || (why.TC == nil) || c.fails == nil && *why.TC != *found {
			t.Errorf("%s: of one flow: %+v, %v", name, why, err)
		}
	}
}
