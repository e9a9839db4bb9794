package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

const fullSchema = "/usr/share/openvswitch/vswitch.ovsschema"

// rig is a node in a namespace with a real ovsdb-server and ovs-vswitchd
// (userspace datapath), and a neighbour in another namespace.
type rig struct {
	t             *testing.T
	node, outside string
	host, far     *netdev.NS
	ovsdb         *ovsdbtest.Server
	dir           string
	vswitchd      *exec.Cmd
	db            *ovsdb.DB
	cfg           Config
	eswitch       func() (Eswitch, error)
	flows         Flows
}

func newRig(t *testing.T) *rig {
	t.Helper()
	schema, err := os.ReadFile(fullSchema)
	if err != nil {
		t.Skipf("no OVS on this machine (Debian package openvswitch-switch): %v", err)
	}
	if _, err := exec.LookPath("ovs-vswitchd"); err != nil {
		t.Skipf("no ovs-vswitchd on this machine (Debian package openvswitch-switch): %v", err)
	}
	r := &rig{t: t, flows: flowTables{}, node: netdevtest.NewNS(t), outside: netdevtest.NewNS(t), dir: t.TempDir()}
	r.ovsdb = ovsdbtest.Start(t, schema)
	r.ovsdb.Transact(`{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",[["system-id","chassis-1"]]],` +
		`"other_config":["map",[["userspace-tso-enable","true"]]]}}`)
	r.host, r.far = r.open(r.node), r.open(r.outside)
	nodetest.Must(t, r.host.AddVeth(netdev.Veth{Name: "eth0", MTU: 1500, Peer: netdev.Peer{Path: r.outside, Name: "eth0"}}))
	for ns, n := range map[*netdev.NS]int{r.host: 3, r.far: 1} {
		nodetest.Must(t, ns.SetLink("lo", netdev.Settings{State: netdev.Up}))
		nodetest.Must(t, ns.SetLink("eth0", netdev.Settings{State: netdev.Up}))
		nodetest.Must(t, ns.ReplaceAddr("eth0", netip.MustParsePrefix(fmt.Sprintf("172.18.0.%d/16", n)), netdev.AddrOptions{}))
		nodetest.Must(t, ns.ReplaceAddr("eth0", netip.MustParsePrefix(fmt.Sprintf("fc00:18::%d/64", n)), netdev.AddrOptions{NoDAD: true}))
	}
	for dest, hop := range map[string]string{"0.0.0.0/0": "172.18.0.1", "::/0": "fc00:18::1"} {
		nodetest.Must(t, r.host.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix(dest), NextHop: netip.MustParseAddr(hop), Link: "eth0"}))
	}
	r.startSwitch()
	t.Cleanup(func() { r.killSwitch() })
	r.cfg = Defaults()
	r.cfg.Node, r.cfg.Remote, r.cfg.Datapath = "n1", "ssl:172.18.0.1:6642", DatapathUserspace
	r.cfg.Network = nodetest.Network("10.244.0.0/16", "fd00:10:244::/48")
	r.cfg.Checkpoint = filepath.Join(r.dir, "node.json")
	return r
}

func (r *rig) open(path string) *netdev.NS {
	r.t.Helper()
	ns, err := netdev.Open(path)
	nodetest.Must(r.t, err)
	r.t.Cleanup(func() { ns.Close() })
	return ns
}

func (r *rig) startSwitch() {
	r.t.Helper()
	r.inside(r.node, func() error {
		r.vswitchd = exec.Command("ovs-vswitchd", r.ovsdb.Endpoint(), "--no-chdir", "--disable-system",
			"--unixctl="+filepath.Join(r.dir, "ctl"), "--log-file="+filepath.Join(r.dir, "log"))
		r.vswitchd.Env = append(os.Environ(), "OVS_RUNDIR="+r.dir)
		return r.vswitchd.Start()
	})
}

func (r *rig) killSwitch() {
	if r.vswitchd != nil {
		r.vswitchd.Process.Kill()
		r.vswitchd.Wait()
		r.vswitchd = nil
	}
	if r.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		r.t.Logf("ovs-vswitchd:\n%s", log)
	}
}

// inside runs f on a thread of the namespace; sockets and processes that it
// makes stay there.
func (r *rig) inside(path string, f func() error) {
	r.t.Helper()
	nodetest.Must(r.t, netdevtest.Inside(path, f))
}

// integrationBridge does what ovn-controller would.
func (r *rig) integrationBridge() {
	r.t.Helper()
	out, err := exec.Command("ovs-vsctl", "--db="+r.ovsdb.Endpoint(), "add-br", contract.IntegrationBridge,
		"--", "set", "Bridge", contract.IntegrationBridge, "datapath_type=netdev", "fail_mode=secure").CombinedOutput()
	if err != nil {
		r.t.Fatalf("ovs-vsctl: %v: %s", err, out)
	}
}

// run starts a Setup as the agent does; the returned function ends it.
func (r *rig) run(object *corev1.Node) (*Setup, func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	schema, err := vswitch.ReplicaSchema()
	nodetest.Must(r.t, err)
	r.db, err = ovsdb.Open(ctx, ovsdb.Defaults([]string{r.ovsdb.Endpoint()}, schema))
	nodetest.Must(r.t, err)
	deps := node.Deps{
		Netns: node.Local{NS: r.host}, DB: r.db,
		Node:       func() *corev1.Node { return object },
		Annotate:   func(context.Context, *corev1.Node, map[string]string) error { return nil },
		Logger:     slog.New(slog.NewTextHandler(testLog{r.t}, nil)),
		Registerer: prometheus.NewRegistry(),
	}
	s, err := New(r.cfg, Deps{Deps: deps, Flows: r.flows, Eswitch: r.eswitch, Management: management.NewPort(r.cfg.Config, deps, nil)})
	nodetest.Must(r.t, err)
	r.db.OnChange(func(owners []string) { s.Changed(owners...) })
	r.db.OnReconnect(s.Mark)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx)
	}()
	stop := func() {
		cancel()
		<-ended
		r.db.Close()
	}
	r.t.Cleanup(stop)
	return s, stop
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// eventually waits for a state of the host, in the absence of one event for it.
func eventually(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > time.Minute {
			t.Fatalf("after a minute still not: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

func (r *rig) has(link, addr string) bool {
	addrs, err := r.host.Addrs(link)
	return err == nil && slices.Contains(addrs, netip.MustParsePrefix(addr))
}

// talk keeps one TCP connection from the neighbour to the node busy, an echo
// each few milliseconds. The returned function waits for some more echoes, ends
// the connection, and gives their number and the longest pause.
func (r *rig) talk() (stop func() (echoes int64, longest time.Duration)) {
	r.t.Helper()
	var server net.Listener
	r.inside(r.node, func() (err error) {
		server, err = net.Listen("tcp", "0.0.0.0:7000")
		return err
	})
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	var client net.Conn
	r.inside(r.outside, func() (err error) {
		client, err = net.DialTimeout("tcp", "172.18.0.3:7000", 5*time.Second)
		return err
	})
	quit, report := make(chan struct{}), make(chan error, 1)
	var echoes atomic.Int64
	var longest time.Duration
	go func() {
		lines := bufio.NewReader(client)
		for {
			select {
			case <-quit:
				report <- nil
				return
			default:
			}
			start := time.Now()
			_ = client.SetDeadline(start.Add(30 * time.Second)) // an echo that is later ends the connection
			if _, err := fmt.Fprintf(client, "%0200d\n", echoes.Load()); err != nil {
				report <- err
				return
			}
			if _, err := lines.ReadString('\n'); err != nil {
				report <- err
				return
			}
			longest = max(longest, time.Since(start))
			echoes.Add(1)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() (int64, time.Duration) {
		r.t.Helper()
		enough := echoes.Load() + 20
		eventually(r.t, "twenty more echoes", func() bool { return echoes.Load() >= enough || len(report) > 0 })
		close(quit)
		if err := <-report; err != nil {
			r.t.Fatalf("the connection broke after %d echoes: %v", echoes.Load(), err)
		}
		client.Close()
		server.Close()
		return echoes.Load(), longest
	}
}

func realNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{contract.NodeSubnetsKey: `{"default":["10.244.1.0/24","fd00:10:244:1::/64"]}`}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.3"}}},
	}
}

// A real OVS takes a NIC over under a busy connection, dies, comes back, and
// gives the NIC back at the clean-up.
func TestRealSwitch_TakesNICOverAndGivesItBack(t *testing.T) {
	r := newRig(t)
	quiet := r.talk()
	s, stop := r.run(realNode())
	r.integrationBridge()
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatalf("not set up after a minute: %v", s.Ready())
	}
	echoes, longest := quiet()
	t.Logf("takeover: %d echoes, longest pause %s", echoes, longest)
	r.carries("breth0")
	if !r.has(node.ManagementInterface, "10.244.1.2/24") || !r.has(node.ManagementInterface, "fd00:10:244:1::2/64") {
		t.Errorf("%s lacks an address", node.ManagementInterface)
	}
	var st State
	s.observeSwitch(&st)
	s.observePorts(&st)
	want := map[string]string{"breth0": "breth0", "eth0": "breth0", node.ManagementInterface: contract.IntegrationBridge, contract.IntegrationBridge: contract.IntegrationBridge}
	if diff := cmp.Diff(want, st.Ports); diff != "" {
		t.Errorf("ports and their bridges (-want +got):\n%s", diff)
	}

	// The dead switch leaves the host on its NIC.
	quiet = r.talk()
	r.killSwitch()
	took := eventually(t, "the address back on the NIC", func() bool { return r.has("eth0", "172.18.0.3/16") })
	t.Logf("after kill -9 of ovs-vswitchd the NIC has the address within %s", took)
	r.startSwitch()
	took = eventually(t, "ready again", func() bool {
		return r.has("breth0", "172.18.0.3/16") && r.has(node.ManagementInterface, "10.244.1.2/24") && s.Ready() == nil
	})
	t.Logf("set up again %s after the start of ovs-vswitchd", took)
	echoes, longest = quiet()
	t.Logf("restart: %d echoes, longest pause %s", echoes, longest)

	// Hands off.
	nodetest.Must(t, r.host.DeleteAddr("breth0", netip.MustParsePrefix("172.18.0.3/16")))
	nodetest.Must(t, r.host.DeleteAddr(node.ManagementInterface, netip.MustParsePrefix("10.244.1.2/24")))
	eventually(t, "deleted addresses repaired", func() bool {
		return r.has("breth0", "172.18.0.3/16") && r.has(node.ManagementInterface, "10.244.1.2/24")
	})
	r.ovsdb.Transact(`{"op":"update","table":"Bridge","where":[["name","==","breth0"]],"row":{"fail_mode":"secure"}}`)
	eventually(t, "the edited bridge repaired", func() bool {
		return strings.Contains(r.ovsdb.Dump("Bridge", "name", "fail_mode"), "standalone")
	})

	stop()
	schema, err := vswitch.ReplicaSchema()
	nodetest.Must(t, err)
	db, err := ovsdb.Open(t.Context(), ovsdb.Defaults([]string{r.ovsdb.Endpoint()}, schema))
	nodetest.Must(t, err)
	defer db.Close()
	s.Deps.DB, s.deps.Management.Deps.DB = db, db
	nodetest.Must(t, s.Cleanup(t.Context()))
	r.carries("eth0")
	eventually(t, "no bridge and no management port", func() bool {
		_, a := r.host.Link("breth0")
		_, b := r.host.Link(node.ManagementInterface)
		return a != nil && b != nil
	})
}

// The second NIC goes the same ways as the first.
func TestRealSwitch_TakesSecondNICOverAndGivesItBack(t *testing.T) {
	r := newRig(t)
	nodetest.Must(t, r.host.AddVeth(netdev.Veth{Name: "eth1", MTU: 1500, Peer: netdev.Peer{Path: r.outside, Name: "eth1"}}))
	nodetest.Must(t, r.far.SetLink("eth1", netdev.Settings{State: netdev.Up}))
	nodetest.Must(t, r.host.SetLink("eth1", netdev.Settings{State: netdev.Up}))
	for _, addr := range []netip.Prefix{secondV4, secondV6} {
		nodetest.Must(t, r.host.ReplaceAddr("eth1", addr, netdev.AddrOptions{NoDAD: true}))
	}
	nodetest.Must(t, r.host.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("10.61.0.0/16"), NextHop: netip.MustParseAddr("10.60.0.9"), Link: "eth1"}))
	r.cfg.SecondInterface = "eth1"
	s, stop := r.run(realNode())
	r.integrationBridge()
	moved := func(on, off string) func() bool {
		return func() bool {
			routes, err := r.host.Routes(on)
			ours := func(route netdev.Route) bool { return route.Dest.String() == "10.61.0.0/16" }
			return r.has(on, secondV4.String()) && r.has(on, secondV6.String()) && !r.has(off, secondV4.String()) && err == nil && slices.ContainsFunc(routes, ours)
		}
	}
	eventually(t, "the second NIC's addresses and route on its bridge", moved("breth1", "eth1"))
	eventually(t, "the node set up", func() bool { return s.Ready() == nil })
	r.killSwitch()
	eventually(t, "all back on the NIC", moved("eth1", "breth1"))
	r.startSwitch()
	eventually(t, "all on the bridge again", moved("breth1", "eth1"))
	stop()
	r.cfg.SecondInterface = ""
	_, stop = r.run(realNode())
	eventually(t, "the NIC given back", func() bool {
		_, err := r.host.Link("breth1")
		return err != nil && moved("eth1", "breth1")() && r.has("breth0", "172.18.0.3/16")
	})
	stop()
}

// carries checks that a link alone has the node's addresses and default routes.
func (r *rig) carries(link string) {
	r.t.Helper()
	for _, name := range []string{"eth0", "breth0"} {
		routes, err := r.host.Routes(name)
		if err != nil {
			continue // the link is gone
		}
		defaults := 0
		for _, route := range routes {
			if route.Dest.Bits() == 0 {
				defaults++
			}
		}
		want := name == link
		if has4, has6 := r.has(name, "172.18.0.3/16"), r.has(name, "fc00:18::3/64"); has4 != want || has6 != want || (defaults == 2) != want {
			r.t.Errorf("%s: IPv4 address %t, IPv6 address %t, %d default routes, all wanted: %t", name, has4, has6, defaults, want)
		}
	}
}
