package network

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// record is what the controller does for a NAD: it writes the id of its network. The result is what it would read back.
func record(x *Definitions, nad NAD) *NAD {
	network := x.NetworkOfNAD(nad.Key)
	nad.Annotations = map[string]string{contract.NetworkIDKey: strconv.Itoa(x.NetworkID(network.Name))}
	return &nad
}

// TestIDs_ArriveTogether: 300 networks of one second, each decided when it comes, with ids that are read back late. No two have
// one id, at no time, and none changes.
func TestIDs_ArriveTogether(t *testing.T) {
	for _, lag := range []int{0, 1, 2, 5, 20, 300} {
		r := rand.New(rand.NewPCG(uint64(lag), 0))
		x := newTestDefinitions()
		x.Lead()
		var echoes []*NAD
		unique := func() map[string]int {
			ids, of := map[int]string{}, map[string]int{}
			for _, network := range x.Networks() {
				if network.ID != 0 && ids[network.ID] != "" {
					t.Fatalf("lag %d: networks %s and %s have id %d", lag, network.Name, ids[network.ID], network.ID)
				}
				ids[network.ID], of[network.Name] = network.Name, network.ID
			}
			return of
		}
		decided := map[string]int{}
		for _, i := range r.Perm(300) {
			nad := define(t, fmt.Sprintf("ns%d/net", i), 7, fmt.Sprintf(`"name":"net%d"`, i))
			x.NADChanged(nad.Key, nad)
			echo := record(x, *nad)
			decided[fmt.Sprintf("net%d", i)], _ = strconv.Atoi(echo.Annotations[contract.NetworkIDKey])
			if echoes = append(echoes, echo); len(echoes) > lag {
				x.NADChanged(echoes[0].Key, echoes[0])
				echoes = echoes[1:]
			}
			unique()
		}
		for _, echo := range echoes {
			x.NADChanged(echo.Key, echo)
		}
		if diff := cmp.Diff(decided, unique()); diff != "" {
			t.Errorf("lag %d: ids (-decided +now):\n%s", lag, diff)
		}
	}
}

// TestIDs_AnnotationsOfOthers: what a NAD loses or says later changes no id, and the controller writes the id back.
func TestIDs_AnnotationsOfOthers(t *testing.T) {
	x := newTestDefinitions()
	x.NADChanged("evil/a", define(t, "evil/a", 1, `"name":"evil"`, contract.NetworkIDKey, "1"))
	x.NADChanged("shop/a", define(t, "shop/a", 2, `"name":"shop"`, contract.NetworkIDKey, "2"))
	x.Lead()
	for _, said := range []string{"", "2", "9999", "7"} {
		nad := define(t, "evil/a", 1, `"name":"evil"`, contract.NetworkIDKey, said)
		if changed := x.NADChanged("evil/a", nad); changed != nil || x.Network("evil").ID != 1 || x.Network("shop").ID != 2 {
			t.Errorf("the NAD says %q: changed %v, networks %v", said, changed, x.Networks())
		}
		if got := record(x, *nad).Annotations[contract.NetworkIDKey]; got != "1" {
			t.Errorf("the NAD says %q, and would get %s", said, got)
		}
	}
	// An id is in use once it is recorded, and not before.
	blue := define(t, "blue/a", 3, `"name":"blue"`)
	x.NADChanged("blue/a", blue)
	echo := record(x, *blue)
	if x.NADChanged("blue/a", define(t, "blue/a", 3, `"name":"blue","mtu":1400`)); x.Network("blue").ID != 0 {
		t.Errorf("an id that is not recorded: %d", x.Network("blue").ID)
	}
	if x.NADChanged("blue/a", echo); x.Network("blue").ID != 3 {
		t.Errorf("an id that is recorded: %d, want 3", x.Network("blue").ID)
	}
	x.NADChanged("blue/a", nil)
	// Another network gets neither of these while they are there, and each when it is gone.
	x.NADChanged("red/a", define(t, "red/a", 3, `"name":"red"`, contract.NetworkIDKey, "2"))
	if id := x.NetworkID("red"); id != 3 || x.Network("red").ID != 0 {
		t.Errorf("a further network: to be %d, is %d", id, x.Network("red").ID)
	}
	x.NADChanged("evil/a", nil)
	x.NADChanged("new/a", define(t, "new/a", 4, `"name":"new"`))
	if id := x.NetworkID("new"); id != 1 {
		t.Errorf("the id of a network that is gone is free, the next one gets %d", id)
	}
}

// TestIDs_OfALeader: recorded ids stay, of two networks with one the older network's. The other one has none until another is
// recorded.
func TestIDs_OfALeader(t *testing.T) {
	x := newTestDefinitions()
	for _, nad := range []*NAD{
		define(t, "red/a", 1, `"name":"a","topology":"layer2","role":"primary","subnets":"10.1.0.0/16"`, contract.NetworkIDKey, "2"),
		define(t, "blue/b", 2, `"name":"b","topology":"layer2","role":"primary","subnets":"10.2.0.0/16"`, contract.NetworkIDKey, "2"),
		define(t, "red/c", 3, `"name":"c"`), define(t, "red/d", 4, `"name":"d"`, contract.NetworkIDKey, "9999"),
	} {
		x.NADChanged(nad.Key, nad)
	}
	if id := x.NetworkID("c"); id != 0 {
		t.Errorf("without Lead, id %d is decided", id)
	}
	x.Lead()
	if got := x.NetworksWithGateway(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("networks with an id and a gateway: %v, want a alone", got)
	}
	got := map[string]int{}
	for _, name := range []string{"a", "b", "c", "d", "none"} {
		got[name] = x.NetworkID(name)
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1, "c": 3, "d": 4, "none": 0}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	x.NADChanged("blue/b", define(t, "blue/b", 2, `"name":"b","topology":"layer2","role":"primary","subnets":"10.2.0.0/16"`, contract.NetworkIDKey, "1"))
	if got := x.NetworksWithGateway(); len(got) != 2 || x.Network("b").ID != 1 {
		t.Errorf("after the second id was recorded: %v", got)
	}
}
