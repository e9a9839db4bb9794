package relay

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// withheld is in place of what a caller may not see.
const withheld = web.Withheld

// restrictFlow leaves of a flow what a caller may see: the flow counts as his if one of its ends is a pod that is his.
// Then the other end's names and address are withheld, and so are texts that may have them, unless he may see all pods. own
// are the addresses of his pods and Services.
func restrictFlow(f flowapi.Flow, sight *Sight, own map[string]bool) (flowapi.Flow, bool) {
	if sight.All {
		return f, true
	}
	his := sight.Pods(f.From.Namespace)
	for _, end := range f.To {
		his = his || sight.Pods(end.Namespace)
	}
	his = his || f.For != nil && sight.Pods(f.For.Namespace)
	if !his {
		return flowapi.Flow{}, false
	}
	// a list of what is given, and not of what is withheld: a field that is added later is withheld
	out := flowapi.Flow{
		ID: f.ID, Node: f.Node, From: restrictEnd(f.From, sight), Way: flowapi.Way{Recirculation: f.Recirculation, Next: f.Next, Drops: f.Drops, Stale: f.Stale},
		Packet: flowapi.Packet{
			Protocol: f.Protocol, Source: address(f.Source, own), SourcePort: f.SourcePort, Target: address(f.Target, own), TargetPort: f.TargetPort, Direction: f.Direction,
			Tunnel: masked(f.Tunnel),
		},
		Placed:  flowapi.Placed{Place: f.Place, Reason: f.Reason},
		Traffic: flowapi.Traffic{Packets: f.Packets, Bytes: f.Bytes, PacketsPerSecond: f.PacketsPerSecond, IdleSeconds: f.IdleSeconds},
		Match:   withheld, Actions: withheld, DecidedBy: objects(f.DecidedBy, sight), Why: restrictWhy(f.Why, sight),
	}
	if f.Reason == offload.ReasonAction { // other details may name a port
		out.Detail = f.Detail
	}
	if f.For != nil {
		end := restrictEnd(*f.For, sight)
		out.For = &end
	}
	for _, end := range f.To {
		out.To = append(out.To, restrictEnd(end, sight))
	}
	return out, true
}

func restrictEnd(e flowapi.End, sight *Sight) flowapi.End {
	if sight.Pods(e.Namespace) {
		return e
	}
	return flowapi.End{Port: withheld}
}

// address leaves own addresses, and of networks, of which each is one of several that a flow matches, nothing.
func address(a string, own map[string]bool) string {
	if a == "" || own[a] {
		return a
	}
	if _, err := netip.ParsePrefix(a); err == nil {
		return ""
	}
	return withheld
}

// objects are names such as NetworkPolicy/shop/deny. Of objects of other namespaces, and of none, the kind is left.
func objects(names []string, sight *Sight) []string {
	var out []string
	for _, name := range names {
		if shown := object(name, sight); !slices.Contains(out, shown) {
			out = append(out, shown)
		}
	}
	return out
}

// object leaves out the network of an owner, too: its name may be another tenant's.
func object(name string, sight *Sight) string {
	owner, err := contract.ParseOwner(name)
	if err != nil {
		return withheld
	}
	switch owner.Kind { // and no other text
	case contract.KindPod, contract.KindService, contract.KindNetworkPolicy, contract.KindMultiNetworkPolicy, contract.KindNetworkChaining:
		if sight.Pods(owner.Namespace) {
			return owner.On("").String()
		}
		return owner.Kind + " of another namespace"
	case contract.KindNode, contract.KindNodeServices, contract.KindNetwork, contract.KindAdminNetworkPolicy, contract.KindBaselineAdminNetworkPolicy,
		contract.KindClusterNetworkPolicy:
		return owner.Kind
	}
	return withheld
}

// restrictWhy leaves the stages and the caller's own objects: rules have addresses.
func restrictWhy(w *flowapi.Why, sight *Sight) *flowapi.Why {
	if w == nil || sight.All {
		return w
	}
	out := &flowapi.Why{ID: w.ID}
	for _, o := range w.Obstacles {
		if o.Reason != offload.ReasonAction { // other details may name a port
			o.Detail = ""
		}
		out.Obstacles = append(out.Obstacles, o)
	}
	if w.Problem != "" {
		out.Problem = "its rules are not known"
	}
	for _, r := range w.Rules {
		rule := flowapi.Rule{Table: r.Table, Rule: withheld}
		if r.Name != nil {
			rule.Name = &flowapi.Name{Stage: r.Name.Stage, Row: r.Name.Row, Objects: objects(r.Name.Objects, sight)}
			if len(r.Name.Objects) > 0 && slices.Equal(rule.Name.Objects, r.Name.Objects) { // all are the caller's
				rule.Name.What, rule.Name.Rule = r.Name.What, r.Name.Rule
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}
