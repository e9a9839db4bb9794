package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

var errCrash = errors.New("the process was killed here")

// fakeHost is a kernel in memory of which each change can be made the last one,
// and which checks after each that the node still has its address.
type fakeHost struct {
	*netdevtest.FakeNS
	fake    *netdevtest.Fake
	changes int
	crashAt int // 0: never
	naked   func() error
	// dead: ovs-vswitchd does not hold its links, or this one alone.
	dead     bool
	deadLink string
	// datapath is the NIC that the kernel's datapath has; "": none.
	datapath string
}

func (h *fakeHost) Links() ([]netdev.Link, error) {
	links, err := h.FakeNS.Links()
	for i := range links {
		if h.dead && !strings.HasPrefix(links[i].Name, "eth") || links[i].Name == h.deadLink {
			links[i].Carrier = false
		}
		if links[i].Name == h.datapath {
			links[i].Master = 1 << 20
		}
	}
	return links, err
}

func (h *fakeHost) SysctlValue(key string) (string, error) {
	if v := h.fake.SysctlValue("", key); v != "" {
		return v, nil
	}
	return "0", nil
}

// LeaveDatapath is NS.LeaveDatapath.
func (h *fakeHost) LeaveDatapath(string) error {
	return h.change(func() error { h.datapath = ""; return nil })
}

func (h *fakeHost) change(f func() error) error {
	h.changes++
	if h.crashAt > 0 && h.changes >= h.crashAt {
		return errCrash
	}
	if err := f(); err != nil {
		return err
	}
	return h.naked()
}

func (h *fakeHost) SetLink(name string, s netdev.Settings) error {
	return h.change(func() error { return h.FakeNS.SetLink(name, s) })
}
func (h *fakeHost) ReplaceAddr(name string, p netip.Prefix, o netdev.AddrOptions) error {
	return h.change(func() error { return h.FakeNS.ReplaceAddr(name, p, o) })
}
func (h *fakeHost) DeleteAddr(name string, p netip.Prefix) error {
	return h.change(func() error { return h.FakeNS.DeleteAddr(name, p) })
}
func (h *fakeHost) ReplaceRoute(r netdev.Route) error {
	return h.change(func() error { return h.FakeNS.ReplaceRoute(r) })
}
func (h *fakeHost) DeleteRoute(r netdev.Route) error {
	return h.change(func() error { return h.FakeNS.DeleteRoute(r) })
}
func (h *fakeHost) ReplaceNeighbor(e netdev.Neighbor) error {
	return h.change(func() error { return h.FakeNS.ReplaceNeighbor(e) })
}
func (h *fakeHost) Sysctl(key, value string) error {
	return h.change(func() error { return h.FakeNS.Sysctl(key, value) })
}

// fakeDB is a database with an ovs-vswitchd that makes links at once.
type fakeDB struct {
	host     *fakeHost
	mu       sync.Mutex
	rows     map[string][]ovsdb.Row
	settings map[string]string
	foreign  []any // bridges and ports of others
	refuse   string
}

func (d *fakeDB) Commit(_ context.Context, wants ...ovsdb.Want) (ovsdb.Result, error) {
	err := d.host.change(func() error { return nil })
	if err != nil {
		return ovsdb.Result{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range wants {
		d.rows[w.Owner] = w.Rows
	}
	d.links()
	return ovsdb.Result{}, nil
}

func (d *fakeDB) links() {
	wanted := map[string]bool{}
	for _, row := range slices.Concat(d.rows["Node/n1"], d.rows["ManagementPort/n1"], d.rows["SecondGateway/n1"]) {
		if i, ok := row.Model.(*vswitch.Interface); ok && i.Type == "internal" {
			wanted[i.Name] = true
			if _, err := d.host.Link(i.Name); err != nil {
				d.host.fake.AddLink("", netdev.Link{Name: i.Name, MTU: 1500, Carrier: true})
			}
		}
	}
	for _, name := range []string{"breth0", "breth1", node.ManagementInterface} {
		if !wanted[name] {
			_ = d.host.DeleteLink(name)
		}
	}
}

func (d *fakeDB) WaitRow(_ context.Context, _, _, id string, ok func(any) bool) error {
	port, i := 1, vswitch.Interface{Name: id}
	if d.refuse == id {
		complaint := "could not open network device " + id
		i.Error = &complaint
	} else {
		i.Ofport = &port
	}
	if !ok(&i) {
		return context.DeadlineExceeded
	}
	return nil
}

func (d *fakeDB) Rows(owner string) []ovsdb.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.rows[owner])
}

func (d *fakeDB) Table(name string) []any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if name == vswitch.OpenvSwitchTable {
		return []any{&vswitch.OpenvSwitch{ExternalIDs: d.settings}}
	}
	out := slices.Clone(d.foreign)
	for _, rows := range d.rows {
		for _, row := range rows {
			out = append(out, row.Model)
		}
	}
	for n, row := range out {
		if i, ok := row.(*vswitch.Interface); ok {
			port := n + 1
			opened := *i
			if _, err := d.host.Link(i.Name); err == nil && d.refuse != i.Name {
				opened.Ofport = &port
			}
			out[n] = &opened
		}
	}
	return slices.DeleteFunc(out, func(row any) bool {
		switch row.(type) {
		case *vswitch.Bridge:
			return name != vswitch.BridgeTable
		case *vswitch.Port:
			return name != vswitch.PortTable
		case *vswitch.Interface:
			return name != vswitch.InterfaceTable
		}
		return true
	})
}

// Members goes by what bridges of others say, and our rows want.
func (d *fakeDB) Members(table, column string) map[string][]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string][]any{}
	for _, row := range slices.Concat(d.rows["Node/n1"], d.rows["ManagementPort/n1"], d.rows["SecondGateway/n1"]) {
		for _, parent := range row.Parents {
			if parent.Table == table && parent.Column == column {
				out[parent.Name] = append(out[parent.Name], row.Model)
			}
		}
	}
	for _, bridge := range d.foreign {
		b, ok := bridge.(*vswitch.Bridge)
		for _, member := range d.foreign {
			if port, isPort := member.(*vswitch.Port); ok && isPort && slices.Contains(b.Ports, port.UUID) {
				out[b.Name] = append(out[b.Name], port)
			}
		}
	}
	return out
}

func (d *fakeDB) EditKeys(_ context.Context, _, _ string, edit func(map[string]string) map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, v := range edit(d.settings) {
		if v == "" {
			delete(d.settings, k)
		} else {
			d.settings[k] = v
		}
	}
	return nil
}

// bench is a node with a NIC, two addresses and a default route.
type bench struct {
	host      *fakeHost
	db        *fakeDB
	cfg       Config
	object    *corev1.Node
	annotated map[string]string
	probe     func() error
	// function is the gateway VF, of which nothing can be known while unknown says so.
	function *node.VF
	unknown  error
	running  *Setup
}

var (
	nodeV4 = netip.MustParsePrefix("172.18.0.3/16")
	nodeV6 = netip.MustParsePrefix("fc00:18::3/64")
)

func newBench(t *testing.T) *bench {
	t.Helper()
	fake := netdevtest.NewFake()
	ns, err := fake.Open("")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{host: &fakeHost{FakeNS: ns, fake: fake, naked: func() error { return nil }}, probe: func() error { return nil }}
	b.db = &fakeDB{host: b.host, rows: map[string][]ovsdb.Row{}, settings: map[string]string{"system-id": "chassis-1"}}
	fake.AddLink("", netdev.Link{Name: "lo", Up: true})
	fake.AddLink("", netdev.Link{Name: "eth0", Up: true, MTU: 1500})
	for _, addr := range []netip.Prefix{nodeV4, nodeV6} {
		nodetest.Must(t, ns.ReplaceAddr("eth0", addr, netdev.AddrOptions{}))
	}
	nodetest.Must(t, ns.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.1"), Link: "eth0"}))
	nodetest.Must(t, ns.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("10.9.0.0/16"), NextHop: netip.MustParseAddr("172.18.0.9"), Others: []netip.Addr{netip.MustParseAddr("172.18.0.8")}, Link: "eth0", Metric: 7}))
	b.cfg = Defaults()
	b.cfg.Node, b.cfg.Remote, b.cfg.Datapath = "n1", "ssl:172.18.0.3:6642", DatapathUserspace
	b.cfg.Network = nodetest.Network("10.244.0.0/16", "fd00:10:244::/48")
	b.cfg.Zone.ServiceSubnets = nodetest.Prefixes("10.96.0.0/16", "fd00:10:96::/112")
	b.cfg.Checkpoint = filepath.Join(t.TempDir(), "node.json")
	b.object = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
			contract.NodeSubnetsKey: `{"default":["10.244.1.0/24","fd00:10:244:1::/64"]}`,
		}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.3"}}},
	}
	return b
}

func (b *bench) ovnController() {
	b.host.fake.AddLink("", netdev.Link{Name: contract.IntegrationBridge, MTU: 1500})
}

func (b *bench) removeSwitchLinks() {
	for _, name := range []string{"breth0", "breth1", node.ManagementInterface} {
		_ = b.host.DeleteLink(name)
	}
}

func (b *bench) makeSwitchLinks() {
	b.db.mu.Lock()
	defer b.db.mu.Unlock()
	b.db.links()
}

func (b *bench) setup(t *testing.T) *Setup {
	t.Helper()
	deps := node.Deps{
		Netns: b.host, DB: b.db,
		Node: func() *corev1.Node { return b.object },
		Annotate: func(_ context.Context, _ *corev1.Node, a map[string]string) error {
			b.annotated = a
			return nil
		},
		Probes:     map[string]func(context.Context) error{"api": func(context.Context) error { return b.probe() }},
		Logger:     slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(),
	}
	s, err := New(b.cfg, Deps{
		Deps: deps, Flows: flowTables{}, Management: management.NewPort(b.cfg.Config, deps, nil),
		VF: func() (*node.VF, error) { return b.function, b.unknown },
	})
	nodetest.Must(t, err)
	return s
}

// converge runs passes as their events would.
func converge(t *testing.T, s *Setup) {
	t.Helper()
	var err error
	for range 6 {
		if err = s.pass(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("after six passes: %v", err)
}

// describe is the host as text: links with addresses, routes, NIC sysctls.
func (b *bench) describe(t *testing.T) string {
	t.Helper()
	var out []string
	links, err := b.host.Links()
	nodetest.Must(t, err)
	for _, l := range links {
		addrs, err := b.host.Addrs(l.Name)
		nodetest.Must(t, err)
		slices.SortFunc(addrs, netip.Prefix.Compare)
		out = append(out, fmt.Sprintf("%s up=%t mtu=%d %v", l.Name, l.Up, l.MTU, addrs))
	}
	routes, err := b.host.Routes("")
	nodetest.Must(t, err)
	for _, r := range routes {
		out = append(out, fmt.Sprintf("route %s metric %d proto %d", r, r.Metric, r.Protocol))
	}
	for _, q := range quiet() {
		value, _ := b.host.SysctlValue(node.SysctlKey(q[0], "eth0"))
		out = append(out, q[0]+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

const settled = `br-int up=false mtu=1500 []
breth0 up=true mtu=1500 [169.254.0.2/17 172.18.0.3/16 fc00:18::3/64 fd69::2/112]
eth0 up=true mtu=1500 []
lo up=true mtu=0 []
net/ipv4/conf/%/arp_ignore=8
net/ipv4/conf/%/rp_filter=1
net/ipv6/conf/%/disable_ipv6=1
ovn-k8s-mp0 up=true mtu=1442 [10.244.1.2/24 fd00:10:244:1::2/64]
route 0.0.0.0/0 via 172.18.0.1 dev breth0 metric 0 proto 4
route 10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0 metric 0 proto 85
route 10.9.0.0/16 via 172.18.0.9 and 172.18.0.8 dev breth0 metric 7 proto 4
route 10.96.0.0/16 via 169.254.0.4 dev breth0 metric 0 proto 85
route 169.254.0.1/32 dev breth0 metric 0 proto 85
route 169.254.0.8/32 via 169.254.0.4 dev breth0 metric 0 proto 85
route fd00:10:244::/48 via fd00:10:244:1::1 dev ovn-k8s-mp0 metric 1024 proto 85
route fd00:10:96::/112 via fd69::4 dev breth0 metric 1024 proto 85
route fd69::1/128 dev breth0 metric 1024 proto 85
route fd69::8/128 via fd69::4 dev breth0 metric 1024 proto 85`

func TestSetup_ConfiguresBridgeAndAnnotations(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	s := b.setup(t)
	nic, err := b.host.Link("eth0")
	nodetest.Must(t, err)
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settled)
	if s.Ready() != nil || s.MTU() != 1442 {
		t.Errorf("ready %v, MTU %d", s.Ready(), s.MTU())
	}
	want := map[string]string{
		contract.NodeChassisIDKey:      "chassis-1",
		contract.NodeEncapIPsKey:       `["172.18.0.3"]`,
		contract.NodePrimaryAddressKey: `{"ipv4":"172.18.0.3/16","ipv6":"fc00:18::3/64"}`,
		contract.NodeMTUKey:            "1442",
		contract.HostCIDRsKey:          `["172.18.0.3/16","fc00:18::3/64"]`,
		contract.GatewayConfigKey: `{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_n1","mac-address":"` + nic.MAC.String() + `",` +
			`"ip-addresses":["172.18.0.3/16","fc00:18::3/64"],"next-hops":["172.18.0.1"],"next-hop":"172.18.0.1","node-port-enable":"true","vlan-id":"0","routes":[{"dest":"10.9.0.0/16","next-hop":"172.18.0.9"}]}}`,
	}
	if diff := cmp.Diff(want, b.annotated); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got := b.db.settings["ovn-bridge-mappings"]; got != "physnet:breth0" {
		t.Errorf("bridge mappings %q", got)
	}
	before := b.host.changes
	converge(t, s)
	// The two owners' rows are compared by the engine, at no cost when equal.
	if got := b.host.changes - before; got != 2 {
		t.Errorf("a pass over a settled node makes %d changes", got)
	}
}

func TestSetup_AnnotationsOfOtherNetworksAreKept(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	b.object.Annotations[contract.GatewayConfigKey] = `{"blue":{"mode":"disabled"},"default":{"mode":"disabled"}}`
	converge(t, b.setup(t))
	value := b.annotated[contract.GatewayConfigKey]
	own, err := contract.ParseGatewayConfig(value, contract.DefaultNetwork)
	if err != nil || own.Mode != "shared" || !strings.HasPrefix(value, `{"blue":{"mode":"disabled"},`) {
		t.Errorf("the annotation is %s, %v", value, err)
	}
}

// Wherever the process is killed, the next one ends at the same state, and the
// host has its address at each moment.
func TestSetup_CrashAtEachStepRecovers(t *testing.T) {
	for crash := 1; ; crash++ {
		b := newBench(t)
		b.ovnController()
		b.host.naked = func() error { return hasAddress(b.host) }
		b.host.crashAt = crash
		first := b.setup(t)
		for range 6 {
			if first.pass(t.Context()) == nil {
				break
			}
		}
		if b.host.changes < crash {
			if crash < 15 {
				t.Fatalf("only %d changes", crash)
			}
			return
		}
		nodetest.Must(t, hasAddress(b.host))
		b.host.crashAt = 0
		converge(t, b.setup(t))
		nodetest.Equal(t, fmt.Sprintf("host after a crash at change %d", crash), b.describe(t), settled)
	}
}

func hasAddress(h *fakeHost) error {
	for _, name := range []string{"eth0", "breth0", "vf1"} {
		if addrs, err := h.Addrs(name); err == nil && slices.Contains(addrs, nodeV4) {
			return nil
		}
	}
	return errors.New("the host has lost its address")
}

func TestSetup_RecoversFromRestartOfSwitch(t *testing.T) {
	for name, die := range map[string]struct{ dies, returns func(*bench) }{
		"its links vanish":         {(*bench).removeSwitchLinks, (*bench).makeSwitchLinks},
		"its links lose the other": {func(b *bench) { b.host.dead = true }, func(b *bench) { b.host.dead = false }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ovnController()
			s := b.setup(t)
			converge(t, s)
			object := b.object
			b.object = nil // nothing is reachable now
			die.dies(b)
			if err := s.pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) {
				t.Fatalf("pass without a bridge: %v", err)
			}
			b.expect(t, "eth0")
			b.host.naked = func() error { return hasAddress(b.host) }
			die.returns(b)
			_ = s.pass(t.Context())
			b.expect(t, "breth0")
			b.object = object
			converge(t, s)
			nodetest.Equal(t, "host", b.describe(t), settled)
		})
	}
}

func TestFailBack_MovesAddressesToNIC(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	s := b.setup(t)
	converge(t, s)
	nodetest.Must(t, b.setup(t).FailBack(t.Context()))
	b.expect(t, "eth0")
	b.host.dead = true
	nodetest.Must(t, b.setup(t).FailBack(t.Context())) // again is fine
	b.expect(t, "eth0")
	b.host.dead = false
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settled)
}

// expect checks that a link has the node's addresses and default route.
func (b *bench) expect(t *testing.T, link string) {
	t.Helper()
	addrs, err := b.host.Addrs(link)
	nodetest.Must(t, err)
	if !slices.Contains(addrs, nodeV4) || !slices.Contains(addrs, nodeV6) {
		t.Errorf("%s has the addresses %v", link, addrs)
	}
	routes, err := b.host.Routes(link)
	nodetest.Must(t, err)
	routes = slices.DeleteFunc(routes, func(r netdev.Route) bool { return r.Protocol == node.ProtocolOurs })
	if len(routes) != 2 {
		t.Errorf("%s has the routes %v", link, routes)
	}
}

func TestSetup_FailedTakeoverIsRolledBack(t *testing.T) {
	for name, fail := range map[string]func(*bench){
		"the NIC cannot be opened": func(b *bench) { b.db.refuse = "eth0" },
		"the API server is lost": func(b *bench) {
			b.probe = func() error {
				if _, err := b.host.Link("breth0"); err == nil {
					return errors.New("no route to host")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rollBack(t, fail) })
		})
	}
}

func rollBack(t *testing.T, fail func(*bench)) {
	b := newBench(t)
	before := b.describe(t)
	fail(b)
	s := b.setup(t)
	_ = s.pass(t.Context()) // makes the bridge
	if err := s.pass(t.Context()); err == nil || errors.Is(err, reconcile.ErrNotReady) {
		t.Fatalf("pass: %v", err)
	}
	nodetest.Equal(t, "host", b.describe(t), before)
	if c, err := loadCheckpoint(b.cfg.Checkpoint); c != nil || err != nil {
		t.Errorf("checkpoint %v, %v", c, err)
	}
	if err := s.pass(t.Context()); err == nil || len(b.db.rows["Node/n1"]) > 0 {
		t.Errorf("the takeover was tried again at once: %v", err)
	}
}

func TestCleanup_RestoresHostAndSettings(t *testing.T) {
	b := newBench(t)
	before := b.describe(t)
	b.db.settings["ovn-bridge-mappings"] = "other:br-other"
	b.ovnController()
	s := b.setup(t)
	converge(t, s)
	if got := b.db.settings["ovn-bridge-mappings"]; got != "physnet:breth0,other:br-other" {
		t.Errorf("bridge mappings %q", got)
	}
	nodetest.Must(t, s.Cleanup(t.Context()))
	nodetest.Must(t, b.host.DeleteLink(contract.IntegrationBridge))
	nodetest.Equal(t, "host", b.describe(t), before)
	want := map[string]string{"system-id": "chassis-1", "ovn-bridge-mappings": "other:br-other"}
	if diff := cmp.Diff(want, b.db.settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	nodetest.Must(t, s.Cleanup(t.Context())) // again is fine
}
