package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func taken(by string, prefixes ...string) (all []Taken) {
	for _, text := range prefixes {
		all = append(all, Taken{netip.MustParsePrefix(text), by})
	}
	return all
}

func primaryNAD(t *testing.T, name, subnets string) *NAD {
	return define(t, name+"/net", 0, `"name":"`+name+`","topology":"layer2","role":"primary","subnets":"`+subnets+`"`)
}

// TestTaken_OverlapIsRefusedOrNotRouted, in both orders: a network that overlaps what others have does not come to be, until
// they no longer have it. A network that is there stays, since its pods run, but gateway routers do not lead to it, and its
// NAD has a warning. The control is a network beside.
func TestTaken_OverlapIsRefusedOrNotRouted(t *testing.T) {
	x := newTestDefinitions()
	node := taken("an address of node n1", "192.0.2.1/32")
	x.NADChanged("before/net", known(primaryNAD(t, "before", "192.0.2.0/25"), "1"))
	x.NADChanged("beside/net", known(primaryNAD(t, "beside", "192.0.3.0/24"), "2"))
	if !x.IsRouted("before") || Warning(x, "before/net") != nil {
		t.Fatal("a network is not routed although its subnet is free")
	}
	if nads, flipped := TakenChanged(x, nil, append(node, node...)); len(nads) != 0 || !slices.Equal(flipped, []string{"before"}) {
		t.Errorf("a node comes: NADs %v, networks %v", nads, flipped)
	}
	warning := Warning(x, "before/net")
	if x.IsRouted("before") || x.NADProblem("before/net") != nil || warning == nil ||
		!strings.Contains(warning.Error(), "its subnets overlap 192.0.2.1/32, which is an address of node n1") {
		t.Errorf("beside the node: routed %t, problem %v, warning %v", x.IsRouted("before"), x.NADProblem("before/net"), warning)
	}
	if !x.IsRouted("beside") || Warning(x, "beside/net") != nil {
		t.Error("the network beside is not routed")
	}
	x.NADChanged("after/net", primaryNAD(t, "after", "192.0.2.0/24"))
	if problem := x.NADProblem("after/net"); problem == nil || x.Network("after") != nil || !strings.Contains(problem.Error(), "node n1") {
		t.Errorf("a network that comes after the node: %v", problem)
	}
	if nads, flipped := TakenChanged(x, node, nil); len(nads)+len(flipped) != 0 {
		t.Errorf("one of two equal subnets went, and %v, %v changed", nads, flipped)
	}
	nads, flipped := TakenChanged(x, node, nil)
	if !slices.Equal(nads, []string{"after/net"}) || !slices.Equal(flipped, []string{"before"}) || !x.IsRouted("before") {
		t.Errorf("the node is gone: NADs %v, networks %v", nads, flipped)
	}
	x.NADChanged("before/net", nil)
	x.NADChanged("after/net", primaryNAD(t, "after", "192.0.2.0/24"))
	if x.NADProblem("after/net") != nil || x.Network("after") == nil {
		t.Errorf("the network is refused for ever: %v", x.NADProblem("after/net"))
	}
	TakenChanged(x, nil, node)
	x.NADChanged("after/net", primaryNAD(t, "after", "192.0.2.0/24")) // without its annotation, as a tool may write it
	if x.Network("after") == nil {
		t.Error("a network that has pods is refused")
	}
}

// TestWarning_OfANetworkThatAnOlderOneShadows does not name the older one, and is over when that goes.
func TestWarning_OfANetworkThatAnOlderOneShadows(t *testing.T) {
	x := newTestDefinitions()
	x.NADChanged("a/net", known(primaryNAD(t, "a", "10.1.0.0/16"), "1"))
	late := known(primaryNAD(t, "b", "10.1.2.0/24"), "2")
	late.Created = late.Created.AddDate(1, 0, 0)
	x.NADChanged("b/net", late)
	if warning := Warning(x, "b/net"); warning == nil || !strings.HasSuffix(warning.Error(), "do not lead to network b: its subnets overlap those of an older network") {
		t.Errorf("the younger network: %v", warning)
	}
	if warning := Warning(x, "a/net"); warning != nil {
		t.Errorf("the older network: %v", warning)
	}
	if changed := x.NADChanged("a/net", nil); Warning(x, "b/net") != nil || !slices.Contains(changed, "b") {
		t.Errorf("the older network is gone: %v, and %v changed", Warning(x, "b/net"), changed)
	}
}

// TestTaken_AnotherReasonIsLookedAtAgain: the Event of a network that stays refused says by what now.
func TestTaken_AnotherReasonIsLookedAtAgain(t *testing.T) {
	x := newTestDefinitions()
	first, second := taken("of NamespaceSubnet one", "10.1.1.0/24"), taken("of NamespaceSubnet two", "10.1.2.0/24")
	TakenChanged(x, nil, append(first, second...))
	x.NADChanged("a/net", primaryNAD(t, "a", "10.1.0.0/16"))
	if nads, _ := TakenChanged(x, nil, taken("of NamespaceSubnet three", "10.1.3.0/24")); len(nads) > 0 {
		t.Errorf("the reason is the same, and %v are looked at", nads)
	}
	if nads, _ := TakenChanged(x, first, nil); !slices.Equal(nads, []string{"a/net"}) {
		t.Errorf("the reason is another one, and %v are looked at", nads)
	}
}

func known(nad *NAD, id string) *NAD {
	nad.Annotations = map[string]string{contract.NetworkIDKey: id}
	return nad
}

// TestIsForeign_OnlyRoutedNetworksHoldAddresses, and none of them for its own services.
func TestIsForeign_OnlyRoutedNetworksHoldAddresses(t *testing.T) {
	x := newTestDefinitions()
	x.NADChanged("a/net", known(primaryNAD(t, "a", "10.1.0.0/16,fd01::/64"), "1"))
	late := known(primaryNAD(t, "b", "10.1.2.0/24,10.2.0.0/24"), "2")
	late.Created = late.Created.AddDate(1, 0, 0)
	x.NADChanged("b/net", late)
	x.NADChanged("new/net", primaryNAD(t, "new", "10.3.0.0/16"))
	is := func(own, addr string, want bool) {
		t.Helper()
		if got := IsForeign(x, own, netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is foreign to %q: %t", addr, own, got)
		}
	}
	is("", "10.1.2.3", true)
	is("b", "10.1.2.3", true)
	is("a", "10.1.2.3", false)
	is("", "fd01::5", true)
	is("", "10.2.0.1", false) // network b overlaps an older one
	is("", "10.3.0.1", false) // without an id
	is("", "192.0.2.1", false)
	x.NADChanged("a/net", nil)
	is("", "10.1.2.3", true)
	is("b", "10.1.2.3", false)
	TakenChanged(x, nil, taken("", "10.2.0.7/32"))
	is("", "10.1.2.3", false)
	TakenChanged(x, taken("", "10.2.0.7/32"), nil)
	is("", "10.2.0.1", true)
}
