package physnet

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// host has links; what a Reconciler does not use is nil.
type host struct {
	node.Observer
	links []netdev.Link
	addrs map[string][]netip.Prefix
	up    []string
}

// Links numbers the links.
func (h *host) Links() ([]netdev.Link, error) {
	links := slices.Clone(h.links)
	for i := range links {
		links[i].Index = i + 1
	}
	return links, nil
}

func (h *host) AllAddrs() (map[int][]netip.Prefix, error) {
	all := map[int][]netip.Prefix{}
	for i, l := range h.links {
		all[i+1] = h.addrs[l.Name]
	}
	return all, nil
}

func (h *host) SetLink(name string, s netdev.Settings) error {
	if s.State == netdev.Up {
		h.up = append(h.up, name)
	}
	return nil
}

type fixture struct {
	*Reconciler
	t        *testing.T
	server   *ovsdbtest.Server
	networks []Network
	labels   map[string]string
	host     *host
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, server: ovsdbtest.Start(t, vswitch.Definition), host: &host{addrs: map[string][]netip.Prefix{}}}
	f.server.Transact(`{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",[["ovn-bridge-mappings","physnet:breth0,by-hand:br-hand"]]]}}`)
	schema, err := vswitch.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	cfg := ovsdb.Defaults([]string{f.server.Endpoint()}, schema)
	cfg.Logger, cfg.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	db, err := ovsdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	for _, name := range []string{"eth1", "eth2", "eth3"} {
		f.host.links = append(f.host.links, netdev.Link{Name: name})
	}
	f.Reconciler = &Reconciler{
		Node:     func() (map[string]string, bool) { return f.labels, f.labels != nil },
		Networks: func() ([]Network, bool) { return f.networks, true },
		DB:       db, Links: f.host, Datapath: "netdev", Changed: func() {},
	}
	f.labels = map[string]string{"rack": "a"}
	return f
}

func physical(name string, bridges ...v1alpha1.PhysicalBridge) Network {
	return OfPhysical(&v1alpha1.PhysicalNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PhysicalNetworkSpec{Bridges: bridges}})
}

// provider is a ProviderNetwork of type VLAN on the nodes of rack a.
func provider(name, link string) Network {
	return OfProvider(&opnfv.ProviderNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: opnfv.ProviderNetworkSpec{VLAN: &opnfv.VLAN{
		ID: "7", NodeSelector: "specific", NodeLabelList: []string{"rack=a"}, ProviderInterfaceName: link, LogicalInterfaceName: link + ".7",
	}}})
}

func onRack(rack, link string) v1alpha1.PhysicalBridge {
	return v1alpha1.PhysicalBridge{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}}, Interface: link}
}

// want checks the mappings and the ports of bridges after a pass.
func (f *fixture) want(mappings, ports, problem string) {
	f.t.Helper()
	err := f.Reconcile(context.Background())
	if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) || (f.Problem() == nil) != (problem == "") {
		f.t.Errorf("error %v, problem %v, want %q", err, f.Problem(), problem)
	}
	settings := strings.NewReplacer(`"`, "", "}", ",", " ", "").Replace(f.server.Dump("Open_vSwitch", "external_ids"))
	if got := settings; !strings.Contains(got, "ovn-bridge-mappings="+mappings+",\n") && !strings.Contains(got, "ovn-bridge-mappings="+mappings+",ovn-offload") {
		f.t.Errorf("settings %s, want the mappings %s", got, mappings)
	}
	got := strings.Fields(f.server.Dump("Port", "name"))
	slices.Sort(got)
	if diff := cmp.Diff(strings.Fields(ports), got); diff != "" {
		f.t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestReconciler_BridgesFollowObjectsAndLabels(t *testing.T) {
	f := newFixture(t)
	f.want("physnet:breth0,by-hand:br-hand", "", "")
	f.networks = []Network{physical("storage", onRack("b", "eth2"), onRack("a", "eth1")), physical("other", onRack("c", "eth3"))}
	f.want("physnet:breth0,by-hand:br-hand,storage:br-eth1", "br-eth1 eth1", "")
	if !slices.Contains(f.host.up, "eth1") {
		t.Error("the interface is not set up")
	}
	f.labels = map[string]string{"rack": "b"}
	f.want("physnet:breth0,by-hand:br-hand,storage:br-eth2", "br-eth2 eth2", "")
	f.networks[0].Bridges[0].Bridge = "br-storage"
	f.want("physnet:breth0,by-hand:br-hand,storage:br-storage", "br-storage eth2", "")
	f.labels = nil // the Node is not known: nothing changes
	f.networks = nil
	f.want("physnet:breth0,by-hand:br-hand,storage:br-storage", "br-storage eth2", "")
	f.labels = map[string]string{"rack": "b"}
	f.want("physnet:breth0,by-hand:br-hand", "", "")
}

func TestReconciler_RefusesWhatWouldCutConnections(t *testing.T) {
	f := newFixture(t)
	f.networks = []Network{physical("good", onRack("a", "eth3")), physical("bad", onRack("a", "eth1"))}
	f.networks[1].Created = time.Now()
	const mappings, ports = "physnet:breth0,by-hand:br-hand,good:br-eth3", "br-eth3 eth3"
	f.host.addrs["eth1"] = []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24")}
	f.want(mappings, ports, "physical network bad: interface eth1 has the address 192.0.2.7/24")
	f.host.addrs["eth1"] = []netip.Prefix{netip.MustParsePrefix("fe80::1/64")}
	f.host.links[0].Master = 7
	f.want(mappings, ports, "eth1 is a port of another bridge or of a bond")
	f.host.links[0].Master = 0
	f.networks[1].Bridges[0].Interface = "eth9"
	f.want(mappings, ports, "the node has no interface eth9")
	f.networks[1].Bridges[0].Interface = "eth3"
	f.want(mappings, ports, "interface eth3 or bridge br-eth3 is that of physical network good")
	slices.Reverse(f.networks) // as an informer lists them: in no order
	f.want(mappings, ports, "interface eth3 or bridge br-eth3 is that of physical network good")
	slices.Reverse(f.networks)
	f.networks[1].Bridges[0] = onRack("a", "eth2")
	f.want("physnet:breth0,by-hand:br-hand,bad:br-eth2,good:br-eth3", "br-eth2 br-eth3 eth2 eth3", "")
	if err := Remove(t.Context(), f.DB); err != nil {
		t.Fatal(err)
	}
	f.networks = nil
	f.want("physnet:breth0,by-hand:br-hand", "", "")
}

func TestReconciler_ProviderNetworksShareInterface(t *testing.T) {
	f := newFixture(t)
	f.networks = []Network{provider("blue", "eth1"), provider("red", "eth1"), provider("other", "")}
	f.want("physnet:breth0,by-hand:br-hand,nw_blue:br-eth1,nw_red:br-eth1", "br-eth1 eth1", "")
	f.networks = f.networks[1:]
	f.want("physnet:breth0,by-hand:br-hand,nw_red:br-eth1", "br-eth1 eth1", "")
	f.networks = append(f.networks, provider("red", "eth2"))
	f.networks[2].Created = time.Now()
	f.want("physnet:breth0,by-hand:br-hand,nw_red:br-eth1", "br-eth1 eth1", "another ProviderNetwork with this name has interface eth1")
	f.host.links = append(f.host.links, netdev.Link{Name: "eth3.7"})
	f.networks[2] = provider("tagged", "eth3")
	f.want("physnet:breth0,by-hand:br-hand,nw_red:br-eth1", "br-eth1 eth1", "interface eth3.7 takes the packets of the VLAN from eth3")
	f.networks[2] = physical("admins", onRack("a", "eth1")) // who comes first
	f.networks[2].Created = time.Now()
	f.want("physnet:breth0,by-hand:br-hand,admins:br-eth1", "br-eth1 eth1", "interface eth1 or bridge br-eth1 is that of physical network admins")
	f.networks = []Network{provider("red", "eth1")}
	f.want("physnet:breth0,by-hand:br-hand", "", "bridge br-eth1 exists already")
	f.want("physnet:breth0,by-hand:br-hand,nw_red:br-eth1", "br-eth1 eth1", "")
	f.labels = map[string]string{"rack": "b"}
	f.want("physnet:breth0,by-hand:br-hand", "", "")
}
