package conncheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// NewDevices reads where the pods of the test are, which have a VF, and which nodes have offload on.
func NewDevices(pods []corev1.Pod, nodes []v1alpha1.NodeOffload) Devices {
	d := Devices{Node: map[string]string{}, VF: map[string]bool{}, Offloads: map[string]bool{}}
	for _, p := range pods {
		if p.Namespace == Namespace {
			d.Node[p.Name] = p.Spec.NodeName
		}
	}
	for _, n := range nodes {
		d.Offloads[n.Name] = n.Status.Offload == v1alpha1.OffloadOn
		for _, used := range n.Status.UsedVFs {
			if name, ours := strings.CutPrefix(used.Pod, Namespace+"/"); ours && used.Interface == "eth0" {
				d.VF[name] = true
			}
		}
	}
	return d
}

// names gives the objects of the test that have an address, by the table's names.
func (env Env) names() streams.Names {
	of := map[netip.Addr]string{}
	for _, kind := range []struct {
		prefix  string
		objects map[string]Addresses
	}{
		{"pod/" + Namespace + "/", env.Pods}, {"svc/" + Namespace + "/", env.Services},
		{"node/", env.Nodes}, {"", map[string]Addresses{"api": env.API}},
	} {
		for name, addresses := range kind.objects {
			for _, a := range addresses {
				of[a] = kind.prefix + name
			}
		}
	}
	return func(_, text string) string {
		if a, err := netip.ParseAddr(text); err == nil && of[a] != "" {
			return of[a]
		}
		return text
	}
}

// Witness collects the streams that agents see while a test runs.
type Witness struct {
	names streams.Names
	seen  map[sighting]bool
	// dropped are the streams that a node drops.
	dropped map[sighting]bool
}

// sighting is a stream of one family without its counters.
type sighting struct {
	family int
	node   string
	streams.Ends
	flowapi.Placed
}

// NewWitness is one that has seen nothing.
func NewWitness(env Env) *Witness {
	return &Witness{names: env.names(), seen: map[sighting]bool{}, dropped: map[sighting]bool{}}
}

// Add takes the flows of a moment.
func (w *Witness) Add(flows []flowapi.Flow) {
	for family, other := range map[int]string{4: ":", 6: "."} {
		var of []flowapi.Flow
		parts := map[string]*flowapi.Flow{}
		for _, f := range flows {
			if !strings.Contains(f.Source+f.Target, other) {
				of, parts[f.Node+"/"+f.ID] = append(of, f), &f
			}
		}
		for _, s := range streams.Join(of, w.names) {
			if s.Drops {
				w.dropped[sighting{family, s.Node, s.Ends, s.Placed}] = true
				continue
			}
			w.seen[sighting{family, s.Node, s.Ends, s.Placed}] = true
			for _, id := range s.Flows {
				for _, ends := range w.partEnds(s, parts[s.Node+"/"+id]) {
					w.seen[sighting{family, s.Node, ends, s.Placed}] = true
				}
			}
		}
	}
}

// partEnds are the ends that one flow of a stream names: the last flow of several ways may be the same, and the stream has
// the ends of only one of them.
func (w *Witness) partEnds(s streams.Stream, f *flowapi.Flow) []streams.Ends {
	ends := s.Ends
	ends.Via = ""
	if f.Protocol != "" {
		ends.Protocol = f.Protocol
	}
	if f.Source != "" && !strings.HasPrefix(ends.From, "pod/") {
		ends.From = w.names("", f.Source)
	}
	if f.Target == "" {
		return []streams.Ends{ends}
	}
	matched := ends
	matched.To = w.names("", f.Target)
	return []streams.Ends{ends, matched}
}

// Placed is what was expected of a leg, and what was seen.
type Placed struct {
	Node     string `json:"node"`
	Expected string `json:"expected"`
	// Seen are places with their reasons, such as ovs (port); empty: the agents saw no such flow.
	Seen  []string `json:"seen,omitempty"`
	Wrong bool     `json:"wrong,omitempty"`
	// Counters are there for a lasting case that is expected in hardware.
	Counters *Counters `json:"counters,omitempty"`
}

// Judge adds to good results where the packets were handled. A case with packets in another place than expected fails.
func (w *Witness) Judge(cases []Case, results []Result, s *Sight) {
	for i, c := range cases {
		if results[i].Verdict != OK {
			continue
		}
		for _, leg := range s.legs(c) {
			p := w.place(leg, c.Names)
			results[i].Places = append(results[i].Places, p)
			if p.Wrong {
				results[i].Verdict = Fail
				results[i].Text += fmt.Sprintf("; in %s on node %s, expected %s", strings.Join(p.Seen, " and "), p.Node, p.Expected)
			}
		}
	}
}

// place compares a leg with what was seen: streams whose flows name both ends, or where there is none those that may be of it.
func (w *Witness) place(leg Leg, names []string) Placed {
	p := Placed{Node: leg.Node, Expected: leg.String()}
	var exact, loose []flowapi.Placed
	for s := range w.seen {
		switch leg.fits(s, names) {
		case exactly:
			exact = append(exact, s.Placed)
		case perhaps:
			loose = append(loose, s.Placed)
		}
	}
	if len(exact) == 0 {
		exact = loose
	}
	hardware := false
	for _, at := range exact {
		text := string(at.Place)
		if at.Reason != "" {
			text += " (" + string(at.Reason) + ")"
		}
		if !slices.Contains(p.Seen, text) {
			p.Seen = append(p.Seen, text)
		}
		hardware = hardware || at.Place == offload.Hardware
		p.Wrong = p.Wrong || !leg.Hardware && (at.Place == offload.Hardware || !leg.allows(at.Reason))
	}
	if leg.Hardware { // the first packets of a connection are in software
		p.Wrong = len(exact) > 0 && !hardware
	}
	slices.Sort(p.Seen)
	return p
}

// likeness is how sure it is that a stream is of a leg.
type likeness int

const (
	not likeness = iota
	perhaps
	exactly
)

func (l Leg) fits(s sighting, names []string) likeness {
	protocol := l.Protocol
	if protocol == "icmp" && l.Family == 6 {
		protocol = "icmp6"
	}
	if s.family != l.Family || s.node != l.Node || s.Protocol != "" && s.Protocol != protocol {
		return not
	}
	from := "pod/" + Namespace + "/" + l.From
	if l.Receives {
		return l.receives(s, from)
	}
	if s.From != from {
		return not
	}
	for _, target := range l.targets(names) {
		if s.To == target || s.Via == target {
			return exactly
		}
	}
	if isAny(s.To) {
		return perhaps
	}
	return not
}

func (l Leg) receives(s sighting, from string) likeness {
	kind, name, _ := strings.Cut(l.To, "/")
	to := kind + "/" + Namespace + "/" + name
	switch {
	case s.To != to && s.Via != to:
		return not
	case s.From == from:
		return exactly
	case isAny(s.From), strings.HasPrefix(l.From, "host-") && !strings.HasPrefix(s.From, "pod/"):
		return perhaps
	}
	return not
}

// targets are what the flows of a leg may name as its end. That of a name are a service, or its pods.
func (l Leg) targets(names []string) []string {
	kind, name, _ := strings.Cut(l.To, "/")
	switch kind {
	case "pod", "svc":
		return append(podNames(names), kind+"/"+Namespace+"/"+name)
	case "name":
		return append(podNames(names), "svc/"+Namespace+"/"+name)
	case "nodeport":
		_, node, _ := strings.Cut(name, "@")
		return []string{"node/" + node}
	}
	return []string{l.To}
}

func podNames(names []string) (out []string) {
	for _, name := range names {
		out = append(out, "pod/"+Namespace+"/"+name)
	}
	return out
}

// isAny says that a flow does not match the address of an end.
func isAny(end string) bool {
	_, err := netip.ParsePrefix(end)
	return end == "" || err == nil
}
