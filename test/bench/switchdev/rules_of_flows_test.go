//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/nodeflows"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// source reads the flows of a node as its agent does.
func (n *ovsNode) source() *nodeflows.Source {
	return nodeflows.New(nodeflows.Config{
		Node: n.name, Switch: n.vswitchd(), Logger: slog.New(slog.DiscardHandler),
		State:    func() offload.State { return offload.State{Ports: n.ports, Settings: n.settings} },
		Counters: n.counters, Rules: n.rules,
		Newest: func() (offload.Report, time.Time, bool) { return offload.Report{}, time.Time{}, false },
	})
}

// TestFlows_RulesOfHardwareFlowsAreKnown: ovs-vswitchd knows the OpenFlow rules of flows that are in the NIC and have had
// packets; others say that they had none. TC has their UFID as the cookie of an action. The control is a flow that there never was.
func TestFlows_RulesOfHardwareFlowsAreKnown(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "it shows what Open vSwitch does, not this project")
	w := newWorld(t, true)
	for _, to := range []string{"b", "c", "d"} {
		stream(t, w.pods["a"], w.pods[to].v4)
	}
	for _, n := range w.nodes {
		began := time.Now()
		flows, err := n.source().Flows(t.Context(), flowapi.Query{All: true, Why: true, TC: true})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		cookies := n.actionCookies() // a moment later: flows without packets may be gone
		all, hardware, used, known, inTC, ruled, counted := len(flows.Flows), 0, 0, 0, 0, 0, uint64(0)
		for _, f := range flows.Flows {
			if f.Place != offload.Hardware {
				continue
			}
			hardware++
			if f.Packets > 0 {
				used++
			}
			switch {
			case len(f.Why.Rules) > 0:
				known++
			case f.Packets > 0 || f.Why.Problem == "":
				t.Errorf("%s: flow %s with %d packets has no rules: %q, %s", n.name, f.ID, f.Packets, f.Why.Problem, f.Match)
			}
			if cookies[f.ID] {
				inTC++
			}
			if rule := f.Why.TC; rule != nil && rule.InHardware {
				ruled++
				counted += rule.Packets
			} else {
				t.Errorf("%s: flow %s in hardware has the rule of TC %+v", n.name, f.ID, rule)
			}
		}
		t.Logf("%s: %d flows, %d in hardware, %d of them with packets: rules of %d, action cookies of %d; all asked in %s", n.name, all, hardware, used, known, inTC, took)
		if used == 0 || inTC < used || ruled < hardware || counted == 0 {
			t.Errorf("%s: %d flows in hardware, action cookies of %d, rules of TC of %d with %d packets: %v", n.name, hardware, inTC, ruled, counted, cookies)
		}
		_, err = n.source().Why(context.Background(), "00000000-0000-0000-0000-000000000000")
		if err == nil {
			t.Error("a flow that never was has rules")
		}
	}
}

// actionCookies are the cookies of the actions of all flower rules, in the form of a UFID: TC has its four words in the
// order of the machine's bytes.
func (n *ovsNode) actionCookies() map[string]bool {
	n.Helper()
	text := run(n.T, inside(n.name, "sh", "-c", "for d in /sys/class/net/*; do tc -s filter show dev ${d##*/} ingress; done; true")...)
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		_, cookie, ok := strings.Cut(line, "cookie ")
		if cookie = strings.Fields(cookie + " -")[0]; !ok || len(cookie) != 32 {
			continue
		}
		words := ""
		for i := 0; i < 32; i += 8 {
			word := cookie[i : i+8]
			words += word[6:8] + word[4:6] + word[2:4] + word[0:2]
		}
		out[fmt.Sprintf("%s-%s-%s-%s-%s", words[:8], words[8:12], words[12:16], words[16:20], words[20:])] = true
	}
	return out
}
