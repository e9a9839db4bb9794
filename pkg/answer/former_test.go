package answer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// The types below are those of the first agents with flows. They stay as they are: an agent, a relay or a plugin of then has them.

type formerSummary struct {
	Node      string             `json:"node"`
	Taken     time.Time          `json:"taken,omitzero"`
	Seconds   float64            `json:"seconds"`
	Offload   offload.Settings   `json:"offload"`
	Total     offload.Share      `json:"total"`
	Outside   []offload.Cause    `json:"outside,omitempty"`
	Pods      []formerPodSummary `json:"pods"`
	Malformed int                `json:"malformed,omitempty"`
}

type formerPodSummary struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Ports     []string       `json:"ports"`
	VF        bool           `json:"vf,omitempty"`
	Traffic   offload.Share  `json:"traffic"`
	Reason    offload.Reason `json:"reason,omitempty"`
	Detail    string         `json:"detail,omitempty"`
	Drops     offload.Count  `json:"drops,omitzero"`
}

type formerFlows struct {
	Node    string       `json:"node"`
	Taken   time.Time    `json:"taken"`
	Matched int          `json:"matched"`
	Flows   []formerFlow `json:"flows"`
}

type formerFlow struct {
	ID   string      `json:"id"`
	Node string      `json:"node,omitempty"`
	From formerEnd   `json:"from"`
	To   []formerEnd `json:"to,omitempty"`
	formerPacket
	formerWay
	formerPlaced
	formerTraffic
	Match     string     `json:"match"`
	Actions   string     `json:"actions"`
	Why       *formerWhy `json:"why,omitempty"`
	DecidedBy []string   `json:"decidedBy,omitempty"`
}

type formerPacket struct {
	Protocol   string `json:"protocol,omitempty"`
	Source     string `json:"source,omitempty"`
	SourcePort string `json:"sourcePort,omitempty"`
	Target     string `json:"target,omitempty"`
	TargetPort string `json:"targetPort,omitempty"`
	Tunnel     string `json:"tunnel,omitempty"`
}

type formerWay struct {
	Recirculation uint32   `json:"recirculation,omitempty"`
	Next          []uint32 `json:"next,omitempty"`
	Drops         bool     `json:"drops,omitempty"`
}

type formerPlaced struct {
	Place  offload.Place  `json:"place"`
	Reason offload.Reason `json:"reason,omitempty"`
	Detail string         `json:"detail,omitempty"`
}

type formerTraffic struct {
	Packets          uint64   `json:"packets"`
	Bytes            uint64   `json:"bytes"`
	PacketsPerSecond *float64 `json:"packetsPerSecond,omitempty"`
	IdleSeconds      *float64 `json:"idleSeconds,omitempty"`
}

type formerEnd struct {
	Port      string `json:"port"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
}

type formerWhy struct {
	ID      string       `json:"id"`
	Rules   []formerRule `json:"rules,omitempty"`
	Problem string       `json:"problem,omitempty"`
}

type formerRule struct {
	Cookie uint64      `json:"cookie"`
	Table  int         `json:"table"`
	Rule   string      `json:"rule"`
	Name   *formerName `json:"name,omitempty"`
}

type formerName struct {
	Stage   string   `json:"stage,omitempty"`
	Row     string   `json:"row,omitempty"`
	What    string   `json:"what,omitempty"`
	Objects []string `json:"objects,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

func shown(t *testing.T, a Answer) string {
	t.Helper()
	return text(t, a)
}

// served gives what a plugin of today reads of an answer.
func served(t *testing.T, answer any) *flowapi.Flows {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	got, err := flowapi.Client{URL: server.URL, HTTP: server.Client()}.Flows(t.Context(), flowapi.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestFormer_AgentIsReadByThePluginOfToday: its answers have fewer fields, and those of a later agent have more.
func TestFormer_AgentIsReadByThePluginOfToday(t *testing.T) {
	former := formerFlows{Node: "w1", Taken: taken, Matched: 1, Flows: []formerFlow{{
		ID: "a", Node: "w1", From: formerEnd{Port: "veth1", Namespace: "shop", Pod: "web-0"}, To: []formerEnd{{Port: "genev_sys_6081"}},
		formerPacket: formerPacket{Protocol: "tcp", Target: "10.244.2.9", TargetPort: "5432", Tunnel: "192.0.2.2"},
		formerPlaced: formerPlaced{Place: offload.OVS, Reason: offload.ReasonAction, Detail: "hash"}, formerTraffic: formerTraffic{Packets: 70},
		Why: &formerWhy{ID: "a", Rules: []formerRule{{Cookie: 1, Name: &formerName{Row: "ACL", What: "egress policy: allow-related", Objects: []string{"NetworkPolicy/shop/deny"}}}}}, DecidedBy: []string{"NetworkPolicy/shop/deny"},
	}}}
	text, err := json.Marshal(former)
	if err != nil {
		t.Fatal(err)
	}
	var later map[string]any
	if err := json.Unmarshal(text, &later); err != nil {
		t.Fatal(err)
	}
	later["added"] = map[string]any{"later": true}
	later["flows"].([]any)[0].(map[string]any)["added"] = []int{1}
	for name, answer := range map[string]any{"former": former, "later": later} {
		a, err := NewStreams(shop(t), served(t, answer).Flows, nil, Filter{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(t, a); a.Code != Good || !strings.Contains(got, "pod/shop/web-0  pod/shop/db-0  tcp:5432  70       -          ovs    action (hash)  netpol/shop/deny") {
			t.Errorf("%s: exit code %d:\n%s", name, a.Code, got)
		}
	}
}

// TestFormer_PluginReadsTheAgentOfToday: it finds all that it knows, and ignores the rest.
func TestFormer_PluginReadsTheAgentOfToday(t *testing.T) {
	body, err := json.Marshal(flowapi.Flows{Node: "w1", Taken: taken, Matched: 4, Unseen: 1, Flows: shopFlows()})
	if err != nil {
		t.Fatal(err)
	}
	var former formerFlows
	if err := json.Unmarshal(body, &former); err != nil {
		t.Fatal(err)
	}
	if len(former.Flows) != 4 || former.Matched != 4 || !former.Taken.Equal(taken) {
		t.Fatalf("%+v", former)
	}
	f := former.Flows[1]
	if f.From.Pod != "web-0" || f.To[0].Port != "genev_sys_6081" || f.Target != "10.244.2.9" || f.Tunnel != "192.0.2.2" || f.Recirculation != 1 || f.Place != offload.OVS || f.Packets != 70 ||
		*f.PacketsPerSecond != 50 || f.Why.Rules[0].Name.Objects[0] != "Pod/shop/db-0" || f.DecidedBy[0] != "Pod/shop/db-0" {
		t.Errorf("%+v", f)
	}
	body, err = json.Marshal(flowapi.Summary{Node: "w1", Total: offload.Share{OVS: offload.Count{Packets: 9}}, Pods: []flowapi.PodSummary{{Namespace: "shop", Name: "web-0", Reason: "action"}}})
	if err != nil {
		t.Fatal(err)
	}
	var summary formerSummary
	if err := json.Unmarshal(body, &summary); err != nil || summary.Node != "w1" || summary.Total.OVS.Packets != 9 || summary.Pods[0].Name != "web-0" || summary.Pods[0].Reason != "action" {
		t.Errorf("%v, %+v", err, summary)
	}
}
