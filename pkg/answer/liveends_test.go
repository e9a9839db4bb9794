package answer

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// TestLive_OfNodesAndClientsOutside: the packets of a node to a pod have the address of its management port. Those to a service, and those
// of clients outside, have an address of the gateway router behind it, and so have the answers.
func TestLive_OfNodesAndClientsOutside(t *testing.T) {
	tunnel, db := flowapi.End{Port: "genev_sys_6081"}, flowapi.End{Port: "veth9", Namespace: "shop", Pod: "db-0"}
	host, uplink, management := flowapi.End{Port: "breth0"}, flowapi.End{Port: "eth0"}, flowapi.End{Port: "ovn-k8s-mp0"}
	number := uint32(0)
	// way is a flow, or two where the address of the target changes between them.
	way := func(id, node string, from, to flowapi.End, p flowapi.Packet, behind string) []flowapi.Flow {
		p.Protocol = "tcp"
		last := flowapi.Flow{ID: id, Node: node, From: from, To: []flowapi.End{to}, Packet: p, Placed: flowapi.Placed{Place: offload.OVS}, Traffic: flowapi.Traffic{Packets: 9}}
		if behind == "" {
			return []flowapi.Flow{last}
		}
		number++
		first := last
		first.ID, first.To, first.Next, first.Actions, first.Tunnel = id+" before", nil, []uint32{number}, "ct(nat),recirc", ""
		last.Target, last.TargetPort, last.Recirculation = behind, "", number
		return []flowapi.Flow{first, last}
	}
	packet := func(source, target, port, by string, direction string) flowapi.Packet {
		return flowapi.Packet{Source: source, Target: target, TargetPort: port, Tunnel: by, Direction: direction}
	}
	service := streams.Ends{From: "node/w1", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}
	nodePort := streams.Ends{From: "outside", To: "node/w1", Protocol: "tcp", Port: "30080"}
	client := nodePort
	client.From = "outside/203.0.113.7"
	asked := way("asked", "w1", host, tunnel, packet("169.254.0.2", "10.96.0.44", "5432", "192.0.2.2", flowapi.Original), "10.244.2.9")
	exposed := way("exposed", "w1", uplink, tunnel, packet("203.0.113.7", "192.0.2.1", "30080", "192.0.2.2", flowapi.Original), "10.244.2.9")
	anyone := way("anyone", "w1", uplink, tunnel, packet("", "192.0.2.1", "30080", "192.0.2.2", flowapi.Original), "10.244.2.9")
	other := way("other", "w1", uplink, tunnel, packet("203.0.113.8", "192.0.2.1", "30080", "192.0.2.2", flowapi.Original), "10.244.2.9")
	received := way("received", "w2", tunnel, db, packet("100.64.0.2", "10.244.2.9", "5432", "192.0.2.1", ""), "")
	receivedOfMany := way("receivedOfMany", "w2", tunnel, db, packet("64.0.0.0/2", "10.244.2.9", "5432", "192.0.2.1", ""), "")
	ofPods := way("ofPods", "w2", tunnel, db, packet("10.244.0.0/23", "10.244.2.9", "5432", "192.0.2.1", ""), "")
	answeredOfMany := way("answeredOfMany", "w1", tunnel, uplink, packet("10.244.2.8/29", "100.64.0.2", "", "192.0.2.2", flowapi.Reply), "203.0.113.7")
	forNode := way("forNode", "w1", tunnel, management, packet("", "10.244.1.2", "", "192.0.2.2", ""), "")
	ofPod := way("ofPod", "w2", tunnel, db, packet("10.244.1.7", "10.244.2.9", "5432", "192.0.2.1", ""), "")
	ofThird := way("ofThird", "w2", tunnel, db, packet("100.64.0.9", "10.244.2.9", "5432", "192.0.2.9", ""), "")
	answers := way("answers", "w2", db, tunnel, packet("10.244.2.9", "100.64.0.2", "", "192.0.2.1", flowapi.Reply), "")
	answered := way("answered", "w1", tunnel, host, packet("10.244.2.9", "100.64.0.2", "", "192.0.2.2", flowapi.Reply), "169.254.0.2")
	managed := way("managed", "w1", management, tunnel, packet("10.244.1.2", "10.244.2.9", "5432", "192.0.2.2", ""), "")
	got := way("got", "w2", tunnel, db, packet("10.244.1.2", "10.244.2.9", "5432", "192.0.2.1", ""), "")
	back := way("back", "w2", db, tunnel, packet("", "10.244.1.2", "", "192.0.2.1", flowapi.Reply), "")
	drops := way("drops", "w2", tunnel, db, packet("100.64.0.2", "10.244.2.9", "5432", "192.0.2.1", ""), "")
	drops[0].To, drops[0].For, drops[0].Drops = nil, &db, true
	for name, c := range map[string]struct {
		want          streams.Ends
		flows         [][]flowapi.Flow
		verdict, legs string
	}{
		"a node to a pod":              {streams.Ends{From: "node/w1", To: "pod/shop/db-0", Protocol: "tcp", Port: "5432"}, [][]flowapi.Flow{managed, got, ofPod, ofThird, back}, Allowed, "managed got back"},
		"a node to a service":          {service, [][]flowapi.Flow{asked, received, ofPod, ofThird, answers, answered}, Allowed, "asked received+ answers+ answered+"},
		"flows of many":                {service, [][]flowapi.Flow{asked, receivedOfMany, ofPods, answers, answeredOfMany}, Allowed, "asked receivedOfMany+ answers+ answeredOfMany+"},
		"flows of pods":                {service, [][]flowapi.Flow{asked, ofPods}, Lost, "asked"},
		"dropped by a policy":          {service, [][]flowapi.Flow{asked, drops}, Dropped, "asked drops+"},
		"not received":                 {service, [][]flowapi.Flow{asked, ofPod, ofThird}, Lost, "asked"},
		"those of clients alone":       {service, [][]flowapi.Flow{exposed, received}, Idle, ""},
		"a client":                     {client, [][]flowapi.Flow{exposed, other, received, ofPod, answers, answered}, Allowed, "exposed received+ answers+ answered+"},
		"a client among others":        {client, [][]flowapi.Flow{anyone, received, answers}, Allowed, "anyone+ received+ answers+"},
		"another client":               {client, [][]flowapi.Flow{other, ofPod, forNode}, Idle, ""},
		"any client":                   {nodePort, [][]flowapi.Flow{exposed, received, ofPod, forNode}, Allowed, "exposed received+"},
		"no client but the node":       {nodePort, [][]flowapi.Flow{asked, ofPod}, Idle, ""},
		"a client that a policy stops": {client, [][]flowapi.Flow{exposed, drops}, Dropped, "exposed drops+"},
	} {
		s := shop(t)
		s.Add(snapshot.Nodes, map[string]any{
			"metadata": map[string]any{"name": "w1", "annotations": map[string]any{"k8s.ovn.org/node-subnets": `{"default":["10.244.1.0/24"]}`}},
			"status":   map[string]any{"addresses": []any{map[string]any{"address": "192.0.2.1"}}},
		})
		s.Add(snapshot.Nodes, map[string]any{
			"metadata": map[string]any{"name": "w2", "annotations": map[string]any{"k8s.ovn.org/node-subnets": `{"default":["10.244.2.0/24"]}`}},
			"status":   map[string]any{"addresses": []any{map[string]any{"address": "192.0.2.2"}}},
		})
		var flows []flowapi.Flow
		for _, way := range c.flows {
			flows = append(flows, way...)
		}
		l, err := NewLive(s, c.want, "w1", flows, nil)
		if err != nil {
			t.Fatal(err)
		}
		var legs []string
		for _, leg := range l.Legs {
			text := leg.Parts[len(leg.Parts)-1].ID
			if leg.Shared {
				text += "+"
			}
			legs = append(legs, text)
		}
		if got := strings.Join(legs, " "); l.Verdict != c.verdict || got != c.legs {
			t.Errorf("%s: %s, %q; want %s, %q", name, l.Verdict, got, c.verdict, c.legs)
		}
	}
}
