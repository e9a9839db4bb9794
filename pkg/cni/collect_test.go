package cni

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// leaving behaves as *ovsdb.DB without a connection: after its first listing it
// shows nothing, in another generation.
type leaving struct {
	*fakeDB
	listed bool
}

func (l *leaving) Owners() []string {
	if l.listed {
		return nil
	}
	l.listed = true
	return l.fakeDB.Owners()
}

func (l *leaving) Rows(owner string) []ovsdb.Row {
	if l.listed {
		return nil
	}
	return l.fakeDB.Rows(owner)
}

func (l *leaving) Generation() uint64 {
	if l.listed {
		return 0
	}
	return 1
}

func TestSweep_KeepsLinksWhileDatabaseIsDisconnected(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.ovs.DB = &leaving{fakeDB: n.db}
	if err := n.srv.Sweep(t.Context()); err == nil {
		t.Error("a sweep without a database succeeded")
	}
	n.wantLinks(linkA)
}

// TestSweep_AfterTheDatabaseWasLost: a link tells whose it is, and its pod lives or not.
func TestSweep_AfterTheDatabaseWasLost(t *testing.T) {
	other := contract.PodOwner("default", "other")
	for name, tt := range map[string]struct {
		change func(*node)
		ports  map[string]contract.Owner // by link
		failed bool
	}{
		"both pods live": {ports: map[string]contract.Owner{linkA: web, linkB: other}},
		"one is gone":    {change: func(n *node) { n.putPod(other, nil) }, ports: map[string]contract.Owner{linkA: web}},
		"both are gone": {change: func(n *node) {
			n.putPod(web, nil)
			n.putPod(other, nil)
		}},
		"one is replaced": {change: func(n *node) { n.setPod(web, "new", webNetwork) }, ports: map[string]contract.Owner{linkB: other}},
		"the links are of a former version": {change: func(n *node) {
			must(n.t, n.host.SetLink(linkA, netdev.Settings{Alias: aliasPrefix + sandboxA}))
			must(n.t, n.host.SetLink(linkB, netdev.Settings{Alias: aliasPrefix + sandboxB}))
		}, ports: map[string]contract.Owner{linkA: {}, linkB: {}}, failed: true},
		"a second sandbox of a pod": {change: func(n *node) { // its DEL was never run
			n.putPod(other, nil)
			must(n.t, n.host.SetLink(linkB, netdev.Settings{Alias: alias(webOn(sandboxB))}))
		}, ports: map[string]contract.Owner{linkB: web}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.setPod(other, "other-uid", otherNetwork)
			n.mustDo(addWeb(sandboxA, "/ns/a"))
			second := addWeb(sandboxB, "/ns/b")
			second.Pod, second.UID = other, "other-uid"
			n.mustDo(second)
			before := n.interfaces()
			n.db.mu.Lock()
			n.db.rows = map[string][]ovsdb.Row{}
			n.db.mu.Unlock()
			if tt.change != nil {
				tt.change(n)
			}
			if err := n.srv.Sweep(t.Context()); (err != nil) != tt.failed {
				t.Fatal(err)
			}
			for link, pod := range tt.ports {
				if pod.Name == "" {
					continue
				}
				want := before[link]
				if pod == web {
					want = before[linkA]
					want["sandbox"] = map[string]string{linkA: sandboxA, linkB: sandboxB}[link]
				}
				if diff := cmp.Diff(want, n.interfaces()[link]); diff != "" {
					t.Errorf("port %s (-before +after):\n%s", link, diff)
				}
			}
			n.wantLinks(slices.Collect(maps.Keys(tt.ports))...)
		})
	}
}

// interfaces gives the external_ids of the pods' Interface rows, by name.
func (n *node) interfaces() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, owner := range n.db.Owners() {
		for _, row := range n.db.Rows(owner) {
			if iface, ok := row.Model.(*vswitch.Interface); ok {
				out[iface.Name] = iface.ExternalIDs
			}
		}
	}
	return out
}

// TestSweep_LeavesVFWithOurAliasAlone: a pod with NET_ADMIN has given its VF the alias of a veth of ours, with the UID of
// a pod that lives, of one that does not, or of none.
func TestSweep_LeavesVFWithOurAliasAlone(t *testing.T) {
	for _, uid := range []string{"other-uid", "unknown-uid", ""} {
		n := newNode(t)
		n.setPod(contract.PodOwner("default", "other"), "other-uid", otherNetwork)
		p := webOn(sandboxB)
		p.UID = uid
		text := alias(p)
		if uid == "" {
			text = aliasPrefix + sandboxB
		}
		n.net.AddLink("", netdev.Link{Name: "ens1f0v3", Type: "device", Parent: "0000:03:00.5", Alias: text})
		if err := n.srv.Sweep(t.Context()); err != nil {
			t.Errorf("%q: %v", uid, err)
		}
		if ports := n.interfaces(); len(ports) > 0 {
			t.Errorf("%q: the VF became a port: %v", uid, ports)
		}
		if _, err := n.host.Link("ens1f0v3"); err != nil {
			t.Errorf("%q: %v", uid, err)
		}
	}
}

func TestAlias_OfALongNetworkName(t *testing.T) {
	p := webOn(sandboxA)
	p.Network = strings.Repeat("n", 129)
	got, ok := ours(netdev.Link{Name: linkA, Type: "veth", Alias: alias(p)})
	if want := (plug.Plugged{Sandbox: sandboxA, Link: linkA}); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p.Network = p.Network[:128]
	p.Link = linkA
	if got, ok := ours(netdev.Link{Name: linkA, Type: "veth", Alias: alias(p)}); !ok || got != p {
		t.Errorf("%+v, want %+v", got, p)
	}
}
