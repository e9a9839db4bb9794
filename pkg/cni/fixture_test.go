package cni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnitypes "github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// fakeDB is the Open_vSwitch database with, if it is asked to, an ovn-controller.
type fakeDB struct {
	mu      sync.Mutex
	rows    map[string][]ovsdb.Row
	changed chan struct{} // closed at the next change
	flows   bool          // ovn-controller works
	away    bool
	fail    func(op string) error
}

func newFakeDB() *fakeDB {
	return &fakeDB{rows: map[string][]ovsdb.Row{}, changed: make(chan struct{}), flows: true}
}

func (d *fakeDB) Generation() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return 0
	}
	return 1
}

func (d *fakeDB) Commit(ctx context.Context, wants ...ovsdb.Want) (ovsdb.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if err := d.fail("Commit"); err != nil {
			return ovsdb.Result{}, err
		}
	}
	if d.away || ctx.Err() != nil {
		return ovsdb.Result{}, errors.Join(errors.New("not committed"), ctx.Err())
	}
	for _, w := range wants {
		delete(d.rows, w.Owner)
		for _, row := range w.Rows {
			if iface, ok := row.Model.(*vswitch.Interface); ok && d.flows {
				iface.ExternalIDs[installedKey] = "true"
			}
			d.rows[w.Owner] = append(d.rows[w.Owner], row)
		}
	}
	d.tell()
	return ovsdb.Result{}, nil
}

// edit changes an Interface row as another program would.
func (d *fakeDB) edit(owner contract.Owner, f func(*vswitch.Interface)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, row := range d.rows[owner.String()] {
		if iface, ok := row.Model.(*vswitch.Interface); ok {
			f(iface)
		}
	}
	d.tell()
}

func (d *fakeDB) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *fakeDB) WaitRow(ctx context.Context, table, owner, id string, ok func(any) bool) error {
	for {
		d.mu.Lock()
		changed, fail := d.changed, d.fail
		d.mu.Unlock()
		var err error
		if fail != nil {
			err = fail("WaitRow")
		}
		if err != nil {
			return err
		}
		for _, row := range d.Rows(owner) {
			if row.ID == id && ok(row.Model) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("row %s of %s in %s: %w", id, owner, table, ctx.Err())
		case <-changed:
		}
	}
}

func (d *fakeDB) Owners() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for owner := range d.rows {
		list = append(list, owner)
	}
	return list
}

func (d *fakeDB) Rows(owner string) []ovsdb.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []ovsdb.Row
	for _, row := range d.rows[owner] {
		if iface, ok := row.Model.(*vswitch.Interface); ok {
			clone := *iface
			clone.ExternalIDs = maps.Clone(iface.ExternalIDs)
			row.Model = &clone
		}
		list = append(list, row)
	}
	return list
}

// node is a server with everything around it in memory.
type node struct {
	t    testing.TB
	db   *fakeDB
	ovs  *plug.OVS
	net  *netdevtest.Fake
	host *netdevtest.FakeNS
	srv  *Server
	mtu  int

	mu   sync.Mutex
	pods map[contract.Owner]*corev1.Pod
}

const (
	sandboxA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sandboxB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	linkA    = "aaaaaaaaaaaaaaa"
	linkB    = "bbbbbbbbbbbbbbb"
	webUID   = "0b0c7d5e-0000-4000-8000-000000000001"

	webNetwork = `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05",` +
		`"gateway_ips":["10.244.1.1"],"routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"},` +
		`{"dest":"10.96.0.0/16","nextHop":"10.244.1.1"}],"ip_address":"10.244.1.5/24","gateway_ip":"10.244.1.1","role":"primary"}}`
	otherNetwork = `{"default":{"ip_addresses":["10.244.1.6/24"],"mac_address":"0a:58:0a:f4:01:06","gateway_ips":["10.244.1.1"]}}`
	dualNetwork  = `{"default":{"ip_addresses":["10.244.1.5/24","fd00:10:244:2::5/64"],"mac_address":"0a:58:0a:f4:01:05",` +
		`"gateway_ips":["10.244.1.1","fd00:10:244:2::1"],"routes":[{"dest":"fd00:10:244::/48","nextHop":"fd00:10:244:2::1"}]}}`
)

var web = contract.PodOwner("default", "web")

// newNode has the pod default/web, with its annotation, and two empty sandboxes.
func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{t: t, db: newFakeDB(), net: netdevtest.NewFake(), mtu: 1400, pods: map[contract.Owner]*corev1.Pod{}}
	n.net.AddLink("", netdev.Link{Name: "eth0", Type: "veth", Up: true})
	for _, path := range []string{"/ns/a", "/ns/b"} {
		n.net.AddNS(path)
		n.net.AddLink(path, netdev.Link{Name: "lo"})
	}
	var err error
	n.host, err = n.net.Open("")
	must(t, err)
	n.srv = n.newServer(n.host, func(path string) (PodLinks, error) { return n.net.Open(path) })
	n.setPod(web, webUID, webNetwork)
	return n
}

func (n *node) newServer(host Links, open func(string) (PodLinks, error)) *Server {
	cfg := Defaults()
	cfg.MTU = func() int { return n.mtu }
	cfg.Socket = filepath.Join(n.t.TempDir(), "cni", "cni.sock")
	n.ovs = &plug.OVS{DB: n.db, Bridge: contract.IntegrationBridge}
	deps := Deps{Plugger: n.ovs, Host: host, OpenNS: open, Ready: n.ovs.Ready}
	deps.Pods = NewPods(func(namespace, name string) *corev1.Pod {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.pods[contract.PodOwner(namespace, name)]
	})
	deps.OnNode = func() []*corev1.Pod {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.Collect(maps.Values(n.pods))
	}
	srv, err := NewServer(cfg, deps, slog.New(slog.DiscardHandler), nil)
	must(n.t, err)
	return srv
}

// impatient makes each stage wait for 20 ms only.
func (n *node) impatient() *node {
	short := 20 * time.Millisecond
	n.srv.cfg.PodTimeout, n.srv.cfg.AnnotationTimeout, n.srv.cfg.FlowsTimeout = short, short, short
	return n
}

// setPod creates or replaces a pod; no annotation when it is "".
func (n *node) setPod(o contract.Owner, uid, annotation string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: types.UID(uid)}}
	if annotation != "" {
		pod.Annotations = map[string]string{contract.PodNetworksKey: annotation}
	}
	n.putPod(o, pod)
}

func (n *node) putPod(o contract.Owner, pod *corev1.Pod) {
	n.mu.Lock()
	if pod == nil {
		delete(n.pods, o)
	} else {
		n.pods[o] = pod
	}
	n.mu.Unlock()
	n.srv.deps.Pods.Changed(o)
}

// Keys of Interface rows, as in plug.
const (
	installedKey = "ovn-installed"
	ifaceIDKey   = "iface-id"
)

// find gives the port of a pod in the database.
func find(db plug.DB, pod contract.Owner) (plug.Plugged, bool) {
	p, ok, err := plug.Find(&plug.OVS{DB: db}, pod)
	return p, ok && err == nil
}

// plugged is what the switch has of the pod default/web.
func (n *node) plugged() plug.Plugged {
	n.t.Helper()
	p, ok, err := plug.Find(n.ovs, web)
	if !ok || err != nil {
		n.t.Fatalf("no port of %s: %v", web, err)
	}
	return p
}

func addWeb(sandbox, netns string) *Request {
	return &Request{
		Command: "ADD", Sandbox: sandbox, Netns: netns, IfName: "eth0", Pod: web, UID: webUID,
		Conf: Conf{CNIVersion: "1.1.0", Name: "ovn-kubernetes"},
	}
}

// webOn is the port of the pod default/web in a sandbox, as its link tells it.
func webOn(sandbox string) plug.Plugged {
	return plug.Plugged{UID: webUID, Sandbox: sandbox, IfName: "eth0", Attachment: "eth0", Network: "ovn-kubernetes"}
}

func delWeb(sandbox, netns string) *Request {
	r := addWeb(sandbox, netns)
	r.Command = "DEL"
	return r
}

func (n *node) do(r *Request) ([]byte, error) { return n.srv.do(n.t.Context(), r) }

func (n *node) mustDo(r *Request) []byte {
	n.t.Helper()
	out, err := n.do(r)
	if err != nil {
		n.t.Fatalf("%s of %s: %v", r.Command, r.Sandbox, err)
	}
	return out
}

// wantNothing checks that neither links nor rows of ours are left.
func (n *node) wantNothing() {
	n.t.Helper()
	if owners := n.db.Owners(); len(owners) != 0 {
		n.t.Errorf("rows are left of %v", owners)
	}
	for path, want := range map[string]int{"": 1, "/ns/a": 1, "/ns/b": 1} {
		ns, err := n.net.Open(path)
		must(n.t, err)
		links, err := ns.Links()
		must(n.t, err)
		if len(links) != want {
			n.t.Errorf("links in namespace %q: %v", path, links)
		}
	}
}

// wantLinks checks the names of our links on the host.
func (n *node) wantLinks(names ...string) {
	n.t.Helper()
	links, err := n.host.Links()
	must(n.t, err)
	got := map[string]bool{}
	for _, l := range links {
		if _, ok := ours(l); ok {
			got[l.Name] = true
		}
	}
	for _, name := range names {
		if !got[name] {
			n.t.Errorf("link %s is missing", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		n.t.Errorf("links are left: %v", got)
	}
}

// until waits for a condition that other goroutines bring about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10s: %s", what)
		}
	}
}

func codeOf(err error) uint {
	var cniErr *cnitypes.Error
	if errors.As(err, &cniErr) {
		return cniErr.Code
	}
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}
