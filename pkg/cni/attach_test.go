package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

func TestAdd_ResultHasInterfacesAddressesAndRoutes(t *testing.T) {
	n := newNode(t)
	var got types100.Result
	must(t, json.Unmarshal(n.mustDo(addWeb(sandboxA, "/ns/a")), &got))
	inPod := 1
	cidr := func(s string) cnitypes.Route {
		p := netip.MustParsePrefix(s)
		return cnitypes.Route{Dst: toIPNet(p), GW: netip.MustParseAddr("10.244.1.1").AsSlice()}
	}
	r1, r2, r3 := cidr("0.0.0.0/0"), cidr("10.244.0.0/16"), cidr("10.96.0.0/16")
	want := types100.Result{
		CNIVersion: "1.1.0",
		Interfaces: []*types100.Interface{
			{Name: linkA, Mtu: 1400},
			{Name: "eth0", Mac: "0a:58:0a:f4:01:05", Mtu: 1400, Sandbox: "/ns/a"},
		},
		IPs: []*types100.IPConfig{{
			Interface: &inPod, Address: toIPNet(netip.MustParsePrefix("10.244.1.5/24")), Gateway: r1.GW,
		}},
		Routes: []*cnitypes.Route{&r1, &r2, &r3},
	}
	want.Interfaces[0].Mac = got.Interfaces[0].Mac // the kernel's choice
	if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func text(t *testing.T, r types100.Result) string {
	b, err := json.MarshalIndent(&r, "", " ")
	must(t, err)
	return string(b)
}

func TestAdd_WritesPortAndInterfaceRows(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	want := []ovsdb.Row{
		{
			ID: linkA, Model: &vswitch.Port{Name: linkA, OtherConfig: map[string]string{"transient": "true"}},
			Parents: []ovsdb.Parent{{Table: "Bridge", Name: "br-int", Column: "ports"}},
		},
		{
			ID: linkA,
			Model: &vswitch.Interface{Name: linkA, ExternalIDs: map[string]string{
				"attached_mac": "0a:58:0a:f4:01:05", "iface-id": "default_web", "iface-id-ver": webUID,
				"sandbox": sandboxA, "ip_addresses": "10.244.1.5/24", "pod-if-name": "eth0",
				"ovn-offload.io/network": "ovn-kubernetes", "ovn-installed": "true",
			}},
			Parents: []ovsdb.Parent{{Table: "Port", Name: linkA, Column: "interfaces"}},
		},
	}
	if diff := cmp.Diff(want, n.db.Rows(web.String())); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestAdd_ConfiguresRealNamespace looks at what a pod finds in a real namespace.
func TestAdd_ConfiguresRealNamespace(t *testing.T) {
	n := newNode(t)
	podPath := netdevtest.NewNS(t)
	host, pod := openNS(t, netdevtest.NewNS(t)), openNS(t, podPath)
	n.srv = n.newServer(host, OpenNS)
	n.setPod(web, webUID, dualNetwork)
	n.mustDo(addWeb(sandboxA, podPath))

	addrs, err := pod.Addrs("eth0")
	must(t, err)
	wantAddrs := prefixes("10.244.1.5/24", "fd00:10:244:2::5/64", "fe80::858:aff:fef4:105/64")
	if diff := cmp.Diff(wantAddrs, addrs, cmpPrefix(), sortPrefixes()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	routes, err := pod.Routes("eth0")
	must(t, err)
	var got []string
	for _, r := range routes {
		if r.NextHop.IsValid() {
			got = append(got, r.String())
		}
	}
	want := []string{
		"0.0.0.0/0 via 10.244.1.1 dev eth0",
		"::/0 via fd00:10:244:2::1 dev eth0",
		"fd00:10:244::/48 via fd00:10:244:2::1 dev eth0",
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	for _, name := range []string{"lo", "eth0"} {
		if link, err := pod.Link(name); err != nil || !link.Up {
			t.Errorf("link %s: %+v, %v", name, link, err)
		}
	}
	if link, err := host.Link(linkA); err != nil || !link.Carrier || link.MTU != 1400 || link.Alias != alias(webOn(sandboxA)) {
		t.Errorf("host's end: %+v, %v", link, err)
	}
	check := addWeb(sandboxA, podPath)
	check.Command = "CHECK"
	n.mustDo(check)
	n.mustDo(addWeb(sandboxA, podPath))

	n.mustDo(delWeb(sandboxA, podPath))
	if _, err := pod.Link("eth0"); !errors.Is(err, netdev.ErrNotFound) {
		t.Errorf("after DEL: %v", err)
	}
}

func openNS(t testing.TB, path string) *netdev.NS {
	t.Helper()
	ns, err := netdev.Open(path)
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// TestAdd_ErrorNamesStagePodAndReason shows that each error names its stage, the pod and the reason.
func TestAdd_ErrorNamesStagePodAndReason(t *testing.T) {
	complaint, ofport := "could not open network device", 7
	tests := []struct {
		name   string
		change func(*node)
		code   uint
		text   []string
	}{
		{"no pod", func(n *node) { n.putPod(web, nil) }, CodePod, []string{"pod: ", "Pod/default/web", "does not show it"}},
		{"other UID", func(n *node) { n.setPod(web, "other", webNetwork) }, CodePod, []string{"UID other", webUID}},
		{"no annotation", func(n *node) { n.setPod(web, webUID, "") }, CodeAnnotation, []string{"annotation: ", "controller has not written"}},
		{"no JSON", func(n *node) { n.setPod(web, webUID, "{") }, CodeAnnotation, []string{"annotation: ", contract.PodNetworksKey}},
		{"no address", func(n *node) { n.setPod(web, webUID, `{"default":{"mac_address":"0a:58:0a:f4:01:05"}}`) }, CodeAnnotation, []string{"ip_addresses is empty"}},
		{"no vswitchd", func(n *node) { n.db.flows = false }, CodeFlows, []string{"flows of default_web", "ovs-vswitchd has not opened " + linkA}},
		{"no flows", func(n *node) {
			n.db.flows = false
			n.ovs.DB = editing{n.db, func(i *vswitch.Interface) { i.Ofport = &ofport }}
		}, CodeFlows, []string{"flows of default_web", "at most 20ms", "ovn-controller has not set ovn-installed"}},
		{"plug.OVS complains", func(n *node) {
			n.db.flows = false
			n.ovs.DB = editing{n.db, func(i *vswitch.Interface) { i.Error = &complaint }}
		}, CodeFlows, []string{"flows: ", complaint}},
		{"no such netns", func(n *node) { n.net.RemoveNS("/ns/a") }, cnitypes.ErrInvalidNetNS, []string{"attach: ", "/ns/a"}},
		{"interface taken", func(n *node) { n.net.AddLink("/ns/a", netdev.Link{Name: "eth0"}) }, CodeTaken, []string{"eth0 exists already in /ns/a"}},
		{"host link taken", func(n *node) { n.net.AddLink("", netdev.Link{Name: linkA}) }, CodeTaken, []string{linkA}},
		{"database disconnected", func(n *node) { n.db.away = true }, cnitypes.ErrTryAgainLater, []string{"not connected"}},
		{"not ready", func(n *node) { n.srv.deps.Ready = func() error { return errors.New("no br-int") } }, cnitypes.ErrTryAgainLater, []string{"no br-int"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t).impatient()
			tt.change(n)
			_, err := n.do(addWeb(sandboxA, "/ns/a"))
			if codeOf(err) != tt.code {
				t.Errorf("code %d, want %d: %v", codeOf(err), tt.code, err)
			}
			for _, part := range tt.text {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v lacks %q", err, part)
				}
			}
			if owners := n.db.Owners(); len(owners) != 0 {
				t.Errorf("rows are left of %v", owners)
			}
			n.wantLinks()
		})
	}
}

// editing changes Interface rows right after each commit.
type editing struct {
	*fakeDB
	change func(*vswitch.Interface)
}

func (e editing) Commit(ctx context.Context, wants ...ovsdb.Want) (ovsdb.Result, error) {
	result, err := e.fakeDB.Commit(ctx, wants...)
	e.edit(web, e.change)
	return result, err
}

// TestAdd_FailureOfAnyCallLeavesNothing fails each single call of an ADD in turn: nothing may stay.
func TestAdd_FailureOfAnyCallLeavesNothing(t *testing.T) {
	for broken := int64(1); ; broken++ {
		n := newNode(t)
		n.setPod(web, webUID, dualNetwork)
		var calls atomic.Int64
		fault := errors.New("injected")
		var where string
		fail := func(op, name string) error {
			if calls.Add(1) == broken {
				where = op + " " + name
				return fault
			}
			return nil
		}
		n.net.FailWith(fail)
		n.db.fail = func(op string) error { return fail(op, "") }
		_, err := n.do(addWeb(sandboxA, "/ns/a"))
		if where == "" {
			must(t, err)
			if broken < 15 {
				t.Errorf("an ADD made only %d calls", broken-1)
			}
			return
		}
		if err == nil {
			t.Errorf("ADD succeeded although call %d (%s) had failed", broken, where)
		}
		n.wantNothing()
	}
}

func TestAdd_RepeatedGivesSameResult(t *testing.T) {
	n := newNode(t)
	first := n.mustDo(addWeb(sandboxA, "/ns/a"))
	second := n.mustDo(addWeb(sandboxA, "/ns/a"))
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Errorf("second result (-first +second):\n%s", diff)
	}
	other := addWeb(sandboxA, "/ns/a")
	other.IfName = "eth1"
	if _, err := n.do(other); codeOf(err) != CodeTaken {
		t.Errorf("second interface of a sandbox: %v, want code %d", err, CodeTaken)
	}
	n.wantLinks(linkA)
}

// TestAdd_FailedRepeatKeepsEarlierPort keeps what an earlier ADD has made.
func TestAdd_FailedRepeatKeepsEarlierPort(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.db.edit(web, func(i *vswitch.Interface) { delete(i.ExternalIDs, installedKey) })
	n.db.flows = false
	if _, err := n.impatient().do(addWeb(sandboxA, "/ns/a")); codeOf(err) != CodeFlows {
		t.Errorf("ADD without flows: %v", err)
	}
	n.wantLinks(linkA)
	if _, ok := find(n.db, web); !ok {
		t.Error("the port of the earlier ADD is gone")
	}
}

// TestAdd_CompletesHalfDoneADD completes what a killed agent has left of an ADD.
func TestAdd_CompletesHalfDoneADD(t *testing.T) {
	n := newNode(t)
	must(t, n.host.AddVeth(netdev.Veth{Name: linkA, Alias: alias(webOn(sandboxA)), Peer: netdev.Peer{Path: "/ns/a", Name: "eth0"}}))
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	if addrs, err := pod.Addrs("eth0"); err != nil || len(addrs) != 1 {
		t.Errorf("addresses %v, %v", addrs, err)
	}
}

func TestAdd_NewSandboxReplacesOld(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.mustDo(addWeb(sandboxB, "/ns/b"))
	n.wantLinks(linkB)
	n.mustDo(delWeb(sandboxA, "/ns/a")) // late
	n.wantLinks(linkB)
	if a, ok := find(n.db, web); !ok || a.Sandbox != sandboxB {
		t.Errorf("a late DEL of the old sandbox left %+v", a)
	}
	n.mustDo(delWeb(sandboxB, "/ns/b"))
	n.wantNothing()
}

// TestAdd_WaitsForPodNetworkAndFlows lets facts arrive one after the other while ADD waits.
func TestAdd_WaitsForPodNetworkAndFlows(t *testing.T) {
	n := newNode(t)
	n.putPod(web, nil)
	n.db.flows = false
	done := make(chan error, 1)
	go func() { _, err := n.do(addWeb(sandboxA, "/ns/a")); done <- err }()
	waiting := func() bool {
		n.srv.deps.Pods.mu.Lock()
		defer n.srv.deps.Pods.mu.Unlock()
		return len(n.srv.deps.Pods.waiters[web]) == 1
	}
	until(t, "ADD waits for the pod", waiting)
	n.setPod(web, "older", webNetwork)
	n.setPod(web, webUID, "")
	until(t, "ADD waits for the annotation", waiting)
	n.setPod(web, webUID, webNetwork)
	until(t, "the port is there", func() bool { _, ok := find(n.db, web); return ok })
	n.db.edit(web, func(i *vswitch.Interface) { i.ExternalIDs[installedKey] = "true" })
	must(t, <-done)
}

func TestAdd_FailsWhenPodChangesMeanwhile(t *testing.T) {
	tests := map[string]func(*node){
		"annotation": func(n *node) { n.setPod(web, webUID, otherNetwork) },
		"replaced":   func(n *node) { n.setPod(web, "new", webNetwork) },
		"deleted":    func(n *node) { n.putPod(web, nil) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.db.flows = false
			done := make(chan error, 1)
			go func() { _, err := n.do(addWeb(sandboxA, "/ns/a")); done <- err }()
			until(t, "the port is there", func() bool { _, ok := find(n.db, web); return ok })
			change(n)
			if err := <-done; codeOf(err) != CodeChanged {
				t.Errorf("ADD: %v, want code %d", err, CodeChanged)
			}
			n.wantNothing()
		})
	}
}

func TestAdd_OtherNetworkOfPodMayChangeMeanwhile(t *testing.T) {
	n := newNode(t)
	n.db.flows = false
	done := make(chan error, 1)
	go func() { _, err := n.do(addWeb(sandboxA, "/ns/a")); done <- err }()
	until(t, "the port is there", func() bool { _, ok := find(n.db, web); return ok })
	other, err := contract.SetNetwork(webNetwork, "blue", map[string]any{"ip_addresses": []string{"10.1.0.4/24"}})
	must(t, err)
	n.setPod(web, webUID, other)
	n.db.edit(web, func(i *vswitch.Interface) { i.ExternalIDs[installedKey] = "true" })
	must(t, <-done)
}

func TestAdd_StaticPodHasUIDOfMirrorPod(t *testing.T) {
	n := newNode(t)
	n.putPod(web, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "mirror",
		Annotations: map[string]string{contract.ConfigHashKey: webUID, contract.PodNetworksKey: webNetwork},
	}})
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if a, _ := find(n.db, web); a.UID != "mirror" {
		t.Errorf("iface-id-ver is %q, want the UID in the API", a.UID)
	}
}

func TestAdd_DeadlineRollsBack(t *testing.T) {
	n := newNode(t)
	n.db.flows = false
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := n.srv.do(ctx, addWeb(sandboxA, "/ns/a"))
	if err == nil {
		t.Error("ADD succeeded without flows")
	}
	n.wantNothing()
}

func cmpPrefix() cmp.Option { return cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }) }

func sortPrefixes() cmp.Option {
	return cmpopts.SortSlices(func(a, b netip.Prefix) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
}

// BenchmarkAddDel is one pod up and down in real namespaces, without OVS and OVN.
func BenchmarkAddDel(b *testing.B) {
	n := newNode(b)
	podPath := netdevtest.NewNS(b)
	n.srv = n.newServer(openNS(b, netdevtest.NewNS(b)), OpenNS)
	n.setPod(web, webUID, dualNetwork)
	var add time.Duration
	for b.Loop() {
		start := time.Now()
		n.mustDo(addWeb(sandboxA, podPath))
		add += time.Since(start)
		n.mustDo(delWeb(sandboxA, podPath))
	}
	b.ReportMetric(float64(add.Microseconds())/float64(b.N), "us/ADD")
}
