package conncheck

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// TestExpect_TableOfPlaces: hardware only from function to function, of TCP, on a node that offloads.
func TestExpect_TableOfPlaces(t *testing.T) {
	for _, c := range []struct {
		enters, leaves Port
		protocol       string
		offloads       bool
		want           Expected
	}{
		{VF, VF, "tcp", true, Expected{Hardware: true}},
		{VF, Tunnel, "tcp", true, Expected{Hardware: true}},
		{Tunnel, VF, "tcp", true, Expected{Hardware: true}},
		{VF, VF, "tcp", false, Expected{Because: offload.ReasonOff}},
		{VF, VF, "udp", true, Expected{}},
		{VF, Tunnel, "icmp", true, Expected{}},
		{VF, Veth, "tcp", true, Expected{Because: offload.ReasonOutput}},
		{Tunnel, Veth, "udp", true, Expected{Because: offload.ReasonOutput}},
		{Host, Veth, "tcp", true, Expected{Because: offload.ReasonOutput}},
		{Veth, VF, "tcp", true, Expected{Because: offload.ReasonPort}},
		{Veth, Tunnel, "icmp", false, Expected{Because: offload.ReasonPort}},
		{VF, Other, "tcp", true, Expected{}},
		{Host, VF, "tcp", true, Expected{}},
	} {
		if got := Expect(c.enters, c.leaves, c.protocol, c.offloads); got != c.want {
			t.Errorf("%s to %s, %s, offload %t: %+v, want %+v", c.enters, c.leaves, c.protocol, c.offloads, got, c.want)
		}
	}
}

// devices are those of a cluster in which pods client, same and other have a VF.
func devices() Devices {
	pods := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "client"}, Spec: corev1.PodSpec{NodeName: "c"}}}
	for _, o := range Objects(Place{NodeA: "a", NodeB: "b", Image: "image", Resource: "ovn-offload.io/vf"}) {
		if p, ok := o.(*corev1.Pod); ok {
			pods = append(pods, *p)
		}
	}
	node := func(name string, pods ...string) v1alpha1.NodeOffload {
		n := v1alpha1.NodeOffload{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeOffloadStatus{Offload: v1alpha1.OffloadOn}}
		for _, pod := range pods {
			n.Status.UsedVFs = append(n.Status.UsedVFs, v1alpha1.UsedVF{Pod: pod, Interface: "eth0"})
		}
		return n
	}
	second := node("c", Namespace+"/denied")
	second.Status.UsedVFs[0].Interface = "net1"
	return NewDevices(pods, []v1alpha1.NodeOffload{node("a", Namespace+"/client", Namespace+"/same", "shop/caged"), node("b", Namespace+"/other"), second})
}

// TestDevices_AreThoseOfTheTest, on the default network; and three pods ask for a VF if there is a resource.
func TestDevices_AreThoseOfTheTest(t *testing.T) {
	d := devices()
	if got := slices.Sorted(maps.Keys(d.VF)); !slices.Equal(got, []string{"client", "other", "same"}) {
		t.Errorf("pods with a VF: %v", got)
	}
	if d.Node["client"] != "a" || d.Node["other"] != "b" {
		t.Errorf("nodes %v", d.Node)
	}
	for resource, want := range map[string]int{"": 0, "ovn-offload.io/vf": 3} {
		asks := 0
		for _, o := range Objects(Place{NodeA: "a", NodeB: "b", Image: "image", Resource: resource}) {
			if p, ok := o.(*corev1.Pod); ok && len(p.Spec.Containers[0].Resources.Limits) > 0 {
				asks++
			}
		}
		if asks != want {
			t.Errorf("with resource %q %d pods ask for one, want %d", resource, asks, want)
		}
	}
}

// TestLegs_AreThoseOfTheTable: each way of each case that the table knows, and no way of a case that must not arrive.
func TestLegs_AreThoseOfTheTable(t *testing.T) {
	d := devices()
	for _, c := range []struct {
		from, to, names, protocol string
		want                      []string
	}{
		{"client", "pod/same", "same", "tcp", []string{"a hardware"}},
		{"client", "pod/other", "other", "tcp", []string{"a hardware", "b hardware"}},
		{"client", "pod/other", "other", "udp", nil},
		{"client", "svc/other", "other", "tcp", []string{"a hardware", "b hardware"}},
		{"client", "svc/spread", "same other", "tcp", nil},
		{"client", "pod/blocked", "blocked", "tcp", []string{"a hardware", "b software (output)"}},
		{"picky", "pod/other", "other", "tcp", []string{"a software (port)", "b hardware"}},
		{"client", "pod/client", "client", "tcp", nil},
		{"client", "api", "", "tcp", nil},
		{"picky", "node/node-b", "", "icmp", []string{"a software (port)"}},
		{"host-a", "pod/blocked", "blocked", "tcp", []string{"b software (output)"}},
		{"host-a", "pod/caged", "caged", "tcp", []string{"a software (output)"}},
		{"client", "pod/host-b", "host-b", "tcp", nil},
	} {
		of := Case{From: c.from, To: c.to, Names: strings.Fields(c.names), Protocol: c.protocol, Family: 4, Want: probe.Reached}
		var got []string
		for _, leg := range of.Legs(d) {
			got = append(got, leg.Node+" "+leg.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s to %s/%s: %v, want %v", c.from, c.to, c.protocol, got, c.want)
		}
		if of.Want = probe.Timeout; of.Legs(d) != nil {
			t.Errorf("%s to %s: a case that is denied has ways", c.from, c.to)
		}
	}
}

// TestWitness_FlowInAnotherPlaceFailsTheCase, and one that was not seen does not.
func TestWitness_FlowInAnotherPlaceFailsTheCase(t *testing.T) {
	e := Env{Pods: map[string]Addresses{}}
	at := func(n string) string { return "192.0.2." + n }
	for name, n := range map[string]string{"client": "1", "same": "2", "blocked": "3"} {
		e.Pods[name] = Addresses{4: netip.MustParseAddr(at(n))}
	}
	client := flowapi.End{Port: "rep0", Namespace: Namespace, Pod: "client"}
	flow := func(place offload.Place, reason offload.Reason, change func(*flowapi.Flow)) flowapi.Flow {
		f := flowapi.Flow{
			Node: "a", From: client, To: []flowapi.End{{Port: "rep1", Namespace: Namespace, Pod: "same"}},
			Packet: flowapi.Packet{Protocol: "tcp", Source: at("1"), Target: at("2")}, Placed: flowapi.Placed{Place: place, Reason: reason},
		}
		if change != nil {
			change(&f)
		}
		return f
	}
	hardware, begins := flow(offload.Hardware, "", nil), flow(offload.TC, offload.ReasonNew, nil)
	to := Case{From: "client", To: "pod/same", Names: []string{"same"}, Protocol: "tcp", Family: 4, Want: probe.Reached}
	denied := to
	denied.To, denied.Names = "pod/blocked", []string{"blocked"}
	arrives := func(place offload.Place, reason offload.Reason) flowapi.Flow {
		return flow(place, reason, func(f *flowapi.Flow) {
			f.Node, f.From, f.Target = "b", flowapi.End{Port: "genev"}, at("3")
			f.To = []flowapi.End{{Port: "veth", Namespace: Namespace, Pod: "blocked"}}
		})
	}
	for name, c := range map[string]struct {
		of      Case
		instead Expected
		flows   []flowapi.Flow
		want    Verdict
		places  string
	}{
		"hardware":                    {of: to, flows: []flowapi.Flow{hardware, begins}, want: OK, places: "hardware: hardware; tc (new-connection)"},
		"never in hardware":           {of: to, flows: []flowapi.Flow{begins}, want: Fail, places: "hardware: tc (new-connection)"},
		"refused":                     {of: to, flows: []flowapi.Flow{flow(offload.TC, offload.ReasonRefused, nil)}, want: Fail, places: "hardware: tc (refused)"},
		"nothing seen":                {of: to, want: OK, places: "hardware: "},
		"another protocol":            {of: to, flows: []flowapi.Flow{flow(offload.OVS, offload.ReasonOff, func(f *flowapi.Flow) { f.Protocol = "udp" })}, want: OK, places: "hardware: "},
		"another node":                {of: to, flows: []flowapi.Flow{flow(offload.OVS, offload.ReasonOff, func(f *flowapi.Flow) { f.Node = "c" })}, want: OK, places: "hardware: "},
		"dropped":                     {of: to, flows: []flowapi.Flow{flow(offload.OVS, offload.ReasonOff, func(f *flowapi.Flow) { f.Drops, f.To = true, nil })}, want: OK, places: "hardware: "},
		"IPv6":                        {of: to, flows: []flowapi.Flow{flow(offload.OVS, offload.ReasonOff, func(f *flowapi.Flow) { f.Source, f.Target = "2001:db8::1", "2001:db8::2" })}, want: OK, places: "hardware: "},
		"software was asked for":      {of: to, instead: Expected{Because: offload.ReasonOutput}, flows: []flowapi.Flow{hardware}, want: Fail, places: "software (output): hardware"},
		"veth in hardware":            {of: denied, flows: []flowapi.Flow{arrives(offload.Hardware, "")}, want: Fail, places: "hardware:  | software (output): hardware"},
		"veth by its port":            {of: denied, flows: []flowapi.Flow{arrives(offload.TC, offload.ReasonOutput)}, want: OK, places: "hardware:  | software (output): tc (output)"},
		"veth for a reason of a NIC":  {of: denied, flows: []flowapi.Flow{arrives(offload.TC, offload.ReasonRefused)}, want: Fail, places: "hardware:  | software (output): tc (refused)"},
		"veth, offload is off":        {of: denied, flows: []flowapi.Flow{arrives(offload.OVS, offload.ReasonOff)}, want: OK, places: "hardware:  | software (output): ovs (offload-off)"},
		"exact flows before loose":    {of: to, flows: []flowapi.Flow{hardware, flow(offload.OVS, offload.ReasonMatch, func(f *flowapi.Flow) { f.Target, f.To = "", nil })}, want: OK, places: "hardware: hardware"},
		"only a flow for any address": {of: to, flows: []flowapi.Flow{flow(offload.OVS, offload.ReasonMatch, func(f *flowapi.Flow) { f.Target, f.To = "", []flowapi.End{{Port: "x"}} })}, want: Fail, places: "hardware: ovs (match)"},
	} {
		for i := range c.flows {
			c.flows[i].ID = string(rune('a' + i))
		}
		w := NewWitness(e)
		w.Add(c.flows)
		results := []Result{{Verdict: OK}}
		w.Judge([]Case{c.of}, results, &Sight{devices: devices(), instead: c.instead})
		var places []string
		for _, p := range results[0].Places {
			places = append(places, p.Expected+": "+strings.Join(p.Seen, "; "))
		}
		if got := strings.Join(places, " | "); got != c.places || results[0].Verdict != c.want {
			t.Errorf("%s: %s %q, want %s %q", name, results[0].Verdict, got, c.want, c.places)
		}
		failed := []Result{{Verdict: Fail}}
		if w.Judge([]Case{c.of}, failed, &Sight{devices: devices(), instead: c.instead}); failed[0].Places != nil {
			t.Errorf("%s: a case that failed has places", name)
		}
	}
}

// TestWitness_FlowThatEndsSeveralWays is seen for each of them.
func TestWitness_FlowThatEndsSeveralWays(t *testing.T) {
	e := Env{Pods: map[string]Addresses{}}
	for name, a := range map[string]string{"client": "192.0.2.1", "other": "192.0.2.2", "blocked": "192.0.2.3"} {
		e.Pods[name] = Addresses{4: netip.MustParseAddr(a)}
	}
	client := flowapi.End{Port: "rep0", Namespace: Namespace, Pod: "client"}
	flows := []flowapi.Flow{{ID: "end", Node: "a", From: client, To: []flowapi.End{{Port: "genev"}}, Packet: flowapi.Packet{Tunnel: "192.0.2.9"}, Way: flowapi.Way{Recirculation: 7}, Placed: flowapi.Placed{Place: offload.Hardware}}}
	for _, target := range []string{"192.0.2.2", "192.0.2.3"} {
		flows = append(flows, flowapi.Flow{ID: target, Node: "a", From: client, Packet: flowapi.Packet{Protocol: "tcp", Target: target}, Way: flowapi.Way{Next: []uint32{7}}, Placed: flowapi.Placed{Place: offload.Hardware}})
	}
	w := NewWitness(e)
	w.Add(flows)
	for name, seen := range map[string]bool{"other": true, "blocked": true, "allowed": false} {
		results := []Result{{Verdict: OK}}
		w.Judge([]Case{{From: "client", To: "pod/" + name, Names: []string{name}, Protocol: "tcp", Family: 4, Want: probe.Reached}}, results, &Sight{devices: devices()})
		if got := results[0].Places[0]; (len(got.Seen) > 0) != seen || got.Wrong {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
