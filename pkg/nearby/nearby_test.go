package nearby

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// fake has n nodes, and on each the pod shop/web-N, with the address 10.0.N.4. It notes what it is asked.
type fake struct {
	nodes int
	asked []string
	flows map[string][]flowapi.Flow
}

func (f *fake) reader() Reader {
	return Reader{System: "ovn-kubernetes", Lists: f.lists, Flows: f.read}
}

func (f *fake) lists(_ context.Context, lists map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error) {
	s := snapshot.New(time.Unix(0, 0), "ovn-kubernetes")
	if _, ok := lists[snapshot.Nodes]; ok {
		for i := range f.nodes {
			s.Add(snapshot.Nodes, map[string]any{
				"metadata": map[string]any{"name": fmt.Sprint("w", i), "annotations": map[string]any{"k8s.ovn.org/node-subnets": fmt.Sprintf(`{"default":["10.0.%d.0/24"]}`, i)}},
				"status":   map[string]any{"addresses": []any{map[string]any{"address": fmt.Sprint("192.0.2.", i)}}},
			})
		}
	}
	for _, of := range lists[snapshot.NetworkPolicies] {
		f.asked = append(f.asked, "policies in "+of.Namespace)
		for _, name := range []string{"deny", "more"} {
			s.Add(snapshot.NetworkPolicies, map[string]any{"metadata": map[string]any{"namespace": of.Namespace, "name": name}, "spec": map[string]any{"podSelector": map[string]any{}}})
		}
	}
	for _, of := range lists[snapshot.Pods] {
		f.asked = append(f.asked, fmt.Sprintf("%s|%s", of.Namespace, of.Fields))
		for i := range f.nodes {
			if of.Fields == fmt.Sprint("spec.nodeName=w", i) || of.Fields == fmt.Sprint("metadata.name=web-", i) || of == (snapshot.Selected{}) {
				s.Add(snapshot.Pods, map[string]any{
					"metadata": map[string]any{"namespace": "shop", "name": fmt.Sprint("web-", i), "annotations": map[string]any{"k8s.ovn.org/pod-networks": fmt.Sprintf(`{"default":{"ip_addresses":["10.0.%d.4/24"],"mac_address":"0a:58:0a:00:00:02"}}`, i)}},
					"spec":     map[string]any{"nodeName": fmt.Sprint("w", i)},
				})
			}
		}
	}
	return s, nil
}

func (f *fake) read(_ context.Context, _ *snapshot.Snapshot, node string, q flowapi.Query) (flows []flowapi.Flow, missing []string, err error) {
	f.asked = append(f.asked, strings.TrimSuffix(fmt.Sprintf("flows of %s in %s", node, q.Namespace), " in "))
	return slices.Clone(f.flows[node]), nil, nil
}

// to is a flow of a node to an address by a tunnel.
func to(node, address, tunnel string) flowapi.Flow {
	return flowapi.Flow{Node: node, ID: address, Packet: flowapi.Packet{Target: address, Tunnel: tunnel}}
}

// TestReader_AddEnds reads the pods of nodes with ends without a name, each node once, and none where all have names. Where that
// does not lead to them, it reads all.
func TestReader_AddEnds(t *testing.T) {
	further := to("w1", "10.0.3.4", "")
	further.From.Network = "shop/blue"
	for name, c := range map[string]struct {
		flows []flowapi.Flow
		want  string
	}{
		"by a tunnel":                {[]flowapi.Flow{to("w1", "10.0.2.4", "192.0.2.2"), to("w1", "10.0.2.3", "192.0.2.2")}, "|spec.nodeName=w2"},
		"on the same node":           {[]flowapi.Flow{to("w1", "10.0.1.9", "")}, "|spec.nodeName=w1"},
		"with a name":                {[]flowapi.Flow{to("w1", "192.0.2.3", "192.0.2.3")}, ""},
		"a network and not a target": {[]flowapi.Flow{to("w1", "10.0.0.0/8", "")}, ""},
		"by a tunnel to nowhere":     {[]flowapi.Flow{to("w1", "10.9.9.9", "198.51.100.1")}, "|"},
		"of a further network":       {[]flowapi.Flow{further}, "|"},
	} {
		f := &fake{nodes: 5}
		s, err := f.lists(t.Context(), map[snapshot.Resource][]snapshot.Selected{snapshot.Nodes: nil})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.reader().AddEnds(t.Context(), s, c.flows); err != nil || strings.Join(f.asked, " ") != c.want {
			t.Errorf("%s: %v, asked %q, want %q", name, err, f.asked, c.want)
		}
	}
	archive := Reader{IsArchive: true}
	if err := archive.AddEnds(t.Context(), snapshot.New(time.Unix(0, 0), ""), []flowapi.Flow{further}); err != nil {
		t.Error(err)
	}
}

// TestReader_Service asks all of few nodes. Of many it asks those of the namespace, and those that send to them, whose flows
// replace what is known of them.
func TestReader_Service(t *testing.T) {
	flows := map[string][]flowapi.Flow{
		"":   {to("w1", "10.0.1.4", "192.0.2.2"), to("w2", "10.0.1.4", "")},
		"w2": {to("w2", "10.0.1.4", "192.0.2.1"), to("w2", "10.0.9.4", "192.0.2.9")},
	}
	for nodes, want := range map[int]string{64: "flows of ", 65: "flows of  in shop, flows of w2"} {
		f := &fake{nodes: nodes, flows: flows}
		_, got, _, err := f.reader().Service(t.Context(), "shop/db")
		var asked []string
		for _, text := range f.asked {
			if strings.HasPrefix(text, "flows") {
				asked = append(asked, text)
			}
		}
		if count := map[int]int{64: 2, 65: 3}[nodes]; err != nil || strings.Join(asked, ", ") != want || len(got) != count {
			t.Errorf("%d nodes: %v, asked %q, want %q; %d flows, want %d", nodes, err, asked, want, len(got), count)
		}
	}
}

// TestReader_AddEndpoints reads the pods of each endpoint's node once, and of eight endpoints at most.
func TestReader_AddEndpoints(t *testing.T) {
	f := &fake{nodes: 5}
	s, err := f.reader().Between(t.Context(), "shop", "pod/web-1", "svc/db")
	if err != nil {
		t.Fatal(err)
	}
	f.asked = nil
	endpoints := []netip.AddrPort{netip.MustParseAddrPort("10.0.3.4:80"), netip.MustParseAddrPort("10.0.3.3:80"), netip.MustParseAddrPort("192.0.2.1:80")}
	for i := range 9 {
		endpoints = append(endpoints, netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 80))
	}
	if err := f.reader().AddEndpoints(t.Context(), s, endpoints); err != nil {
		t.Fatal(err)
	}
	asked := strings.Join(f.asked, " ")
	if !strings.HasPrefix(asked, "|spec.nodeName=w3 |status.podIP=192.0.2.1 |status.podIP=198.51.100.0") || strings.Count(asked, "w3") != 1 || strings.Contains(asked, "198.51.100.5") {
		t.Errorf("asked %s", asked)
	}
}

// TestReader_Between reads the pods at both ends and those of their nodes. An address leads to the node whose subnet has it.
func TestReader_Between(t *testing.T) {
	for target, want := range map[string]string{
		"pod/web-2:80/udp":    "ovn-kubernetes| shop|metadata.name=web-1 shop|metadata.name=web-2 |spec.nodeName=w1 |spec.nodeName=w2",
		"pod/bank/web-2/icmp": "ovn-kubernetes| shop|metadata.name=web-1 bank|metadata.name=web-2 |spec.nodeName=w1 |spec.nodeName=w2",
		"svc/db":              "ovn-kubernetes| shop|metadata.name=web-1 |spec.nodeName=w1",
		"10.0.3.4:80":         "ovn-kubernetes| shop|metadata.name=web-1 |spec.nodeName=w1 |spec.nodeName=w3",
		"198.51.100.7":        "ovn-kubernetes| shop|metadata.name=web-1 |spec.nodeName=w1 |status.podIP=198.51.100.7",
		"nonsense:x":          "ovn-kubernetes| shop|metadata.name=web-1 |spec.nodeName=w1",
	} {
		f := &fake{nodes: 5}
		if _, err := f.reader().Between(t.Context(), "shop", "pod/web-1", target); err != nil || strings.Join(f.asked, " ") != want {
			t.Errorf("%s: %v, asked\n%q, want\n%q", target, err, strings.Join(f.asked, " "), want)
		}
	}
}

// TestReader_Live reads NetworkPolicies of the namespace of the one that drops packets, and none where another thing drops them.
func TestReader_Live(t *testing.T) {
	web := flowapi.End{Port: "veth1", Namespace: "shop", Pod: "web-2"}
	for by, want := range map[string]string{"NetworkPolicy/shop/deny": "policies in shop", "AdminNetworkPolicy/deny": ""} {
		drops := to("w2", "10.0.2.4", "192.0.2.1")
		drops.Source, drops.Protocol, drops.TargetPort, drops.For, drops.Drops = "10.0.1.4", "tcp", "80", &web, true
		drops.Why = &flowapi.Why{Rules: []flowapi.Rule{{Name: &flowapi.Name{What: "ingress policy: drop", Objects: []string{by}}}}}
		f := &fake{nodes: 5, flows: map[string][]flowapi.Flow{"w2": {drops}}}
		s, err := f.reader().Between(t.Context(), "shop", "pod/web-1", "pod/web-2:80")
		if err != nil {
			t.Fatal(err)
		}
		f.asked = nil
		l, err := f.reader().Live(t.Context(), s, trace.Connection{From: "pod/shop/web-1", To: "pod/shop/web-2", Protocol: "tcp", Target: netip.MustParseAddrPort("10.0.2.4:80")})
		if err != nil || l.Verdict != answer.Dropped {
			t.Fatalf("%v: %+v", err, l)
		}
		asked := strings.Join(f.asked, ", ")
		deny := l.Legs[0].Deny
		if strings.Contains(asked, "policies in") != (want != "") || !strings.HasSuffix(asked, want) || (deny != nil && slices.Equal(deny.Policies, []string{"netpol/shop/deny", "netpol/shop/more"})) != (want != "") {
			t.Errorf("%s: asked %s, want %q; %+v", by, asked, want, deny)
		}
	}
}
