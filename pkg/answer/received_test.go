package answer

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// TestLive_AllowsWhatIsReceived: that a node sends packets into a tunnel says nothing about the other node, whatever the flow
// matches and whoever the target is. The controls are received, or stay on their node.
func TestLive_AllowsWhatIsReceived(t *testing.T) {
	web, db := flowapi.End{Port: "veth1", Namespace: "shop", Pod: "web-0"}, flowapi.End{Port: "veth9", Namespace: "shop", Pod: "db-0"}
	tunnel, uplink := flowapi.End{Port: "genev_sys_6081"}, flowapi.End{Port: "eth0"}
	flow := func(node string, from, to flowapi.End, source, target, by string) flowapi.Flow {
		return flowapi.Flow{
			ID: node + target, Node: node, From: from, To: []flowapi.End{to}, Placed: flowapi.Placed{Place: offload.OVS}, Traffic: flowapi.Traffic{Packets: 9},
			Packet: flowapi.Packet{Protocol: "tcp", Source: source, Target: target, Tunnel: by},
		}
	}
	received, withheld := flow("w2", tunnel, db, "10.244.1.7", "10.244.2.9", "192.0.2.1"), flow("w2", tunnel, db, flowapi.Withheld, "", flowapi.Withheld)
	toPod, toNetwork := flow("w1", web, tunnel, "", "10.244.2.9", "192.0.2.2"), flow("w1", web, tunnel, "", "10.244.2.0/24", "192.0.2.2")
	toHost, leaves := flow("w1", web, tunnel, "", "10.244.3.2", "192.0.2.3"), flow("w1", web, uplink, "", "198.51.100.7", "")
	noAnswer := []string{"node/w2: no answer"}
	for name, c := range map[string]struct {
		to      string
		flows   []flowapi.Flow
		missing []string
		verdict string
		code    Code
	}{
		"received":                               {"pod/shop/db-0", []flowapi.Flow{toPod, received}, nil, Allowed, Good},
		"received, and a third node is missing":  {"pod/shop/db-0", []flowapi.Flow{toPod, received}, []string{"node/w3: no answer"}, Allowed, Uncertain},
		"by a route, received":                   {"pod/shop/db-0", []flowapi.Flow{toNetwork, received}, nil, Allowed, Good},
		"by a route, not received":               {"pod/shop/db-0", []flowapi.Flow{toNetwork}, nil, Lost, Degraded},
		"by a route, and the node does not say":  {"pod/shop/db-0", []flowapi.Flow{toNetwork}, noAnswer, Sent, Uncertain},
		"the node does not say":                  {"pod/shop/db-0", []flowapi.Flow{toPod}, noAnswer, Sent, Uncertain},
		"the relay withholds what was received":  {"pod/shop/db-0", []flowapi.Flow{toPod, withheld}, nil, Sent, Uncertain},
		"to an address that no pod is known for": {"10.244.3.2", []flowapi.Flow{toHost}, nil, Sent, Uncertain},
		"out of the cluster":                     {"198.51.100.7", []flowapi.Flow{leaves}, nil, Allowed, Good},
	} {
		l, err := NewLive(shop(t), streams.Ends{From: "pod/shop/web-0", To: c.to, Protocol: "tcp", Port: "5432"}, "", c.flows, c.missing)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(text(t, l), ": "+strings.ToUpper(c.verdict)+"\n")
		if l.Verdict != c.verdict || l.Code != c.code || !said || (c.code == Uncertain) != (len(l.Missing) > 0) {
			t.Errorf("%s: exit code %d, %v, want %d\n%s", name, l.Code, l.Missing, c.code, text(t, l))
		}
	}
}

// TestLive_KnowsNotOfOneEndpoint: one endpoint of two receives its packets, and the node of the other does not answer.
func TestLive_KnowsNotOfOneEndpoint(t *testing.T) {
	want := streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}
	flows := shopFlows()
	other := slices.Clone(flows[:2])
	other[0].ID, other[1].ID, other[0].Next, other[1].Recirculation = "e", "f", []uint32{7}, 7
	other[1].Target, other[1].Tunnel = "10.244.3.9", "192.0.2.3"
	s := shop(t)
	for _, c := range []struct {
		flows   []flowapi.Flow
		missing []string
		verdict string
	}{
		{flows, nil, Allowed}, {append(flows, other...), []string{"node/w3: no answer"}, Sent},
	} {
		l, err := NewLive(s, want, "", c.flows, c.missing)
		if err != nil || l.Verdict != c.verdict {
			t.Errorf("%v: %v\n%s", c.missing, err, text(t, l))
		}
	}
}
