package cni

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

var _ plug.DB = (*ovsdb.DB)(nil)

// realNode is a server on a real ovsdb-server and real namespaces.
type realNode struct {
	*node
	db       *ovsdb.DB
	database *ovsdbtest.Server
	host     *netdev.NS
	pods     [2]string // paths of two sandboxes' namespaces
}

func newRealNode(t testing.TB) *realNode {
	t.Helper()
	r := &realNode{node: newNode(t), database: ovsdbtest.Start(t, vswitch.Definition)}
	r.database.Transact(`{"op":"insert","table":"Bridge","row":{"name":"br-int"},"uuid-name":"br"},
		{"op":"insert","table":"Open_vSwitch","row":{"bridges":["set",[["named-uuid","br"]]]}}`)
	r.pods = [2]string{netdevtest.NewNS(t), netdevtest.NewNS(t)}
	r.host = openNS(t, netdevtest.NewNS(t))
	schema, err := vswitch.ReplicaSchema()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r.db, err = ovsdb.Open(ctx, ovsdb.Defaults([]string{r.database.Endpoint()}, schema))
	must(t, err)
	t.Cleanup(r.db.Close)
	r.srv = r.newServer(r.host, OpenNS)
	r.ovs.DB = r.db
	r.setPod(web, webUID, webNetwork)
	return r
}

// controller plays ovn-controller for a pod until the test ends: it answers each new
// Interface row with ovn-installed, through a connection of its own.
func (r *realNode) controller(pod contract.Owner) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var link string
			for _, want := range []string{linkA, linkB} {
				for _, row := range r.db.Rows(pod.String()) {
					i, ok := row.Model.(*vswitch.Interface)
					if ok && i.Name == want && i.ExternalIDs[installedKey] == "" {
						link = want
					}
				}
			}
			if link == "" {
				time.Sleep(time.Millisecond)
				continue
			}
			r.database.Transact(`{"op":"mutate","table":"Interface","where":[["name","==","` + link + `"]],
				"mutations":[["external_ids","insert",["map",[["ovn-installed","true"]]]]]}`)
			seen, stop := context.WithTimeout(ctx, time.Second) // the row may be replaced meanwhile
			_ = r.db.WaitRow(seen, "Interface", pod.String(), link, func(m any) bool {
				return m.(*vswitch.Interface).ExternalIDs[installedKey] == "true"
			})
			stop()
		}
	}()
}

func TestEngine_AttachesAndDetachesInRealDatabase(t *testing.T) {
	r := newRealNode(t)
	r.controller(web)
	first := r.mustDo(addWeb(sandboxA, r.pods[0]))
	if again := r.mustDo(addWeb(sandboxA, r.pods[0])); string(again) != string(first) {
		t.Errorf("second ADD gives %s, the first gave %s", again, first)
	}
	check := addWeb(sandboxA, r.pods[0])
	check.Command = "CHECK"
	r.mustDo(check) // the second ADD has not taken ovn-installed away

	r.mustDo(addWeb(sandboxB, r.pods[1]))
	dump := strings.ReplaceAll(r.database.Dump("Interface", "name", "external_ids"), `"`, "")
	for _, want := range []string{linkB, "iface-id=default_web", "iface-id-ver=" + webUID, "sandbox=" + sandboxB, "attached_mac=0a:58:0a:f4:01:05"} {
		if !strings.Contains(dump, want) {
			t.Errorf("Interface rows lack %q:\n%s", want, dump)
		}
	}
	if strings.Contains(dump, linkA) {
		t.Errorf("the old sandbox's row is left:\n%s", dump)
	}
	r.mustDo(delWeb(sandboxA, r.pods[0]))
	if dump := r.database.Dump("Port", "name"); !strings.Contains(dump, linkB) {
		t.Errorf("a late DEL removed the new port; left:\n%s", dump)
	}
	for range 2 {
		r.mustDo(delWeb(sandboxB, r.pods[1]))
	}
	r.wantEmpty()
}

// wantEmpty looks into the database itself.
func (r *realNode) wantEmpty() {
	r.t.Helper()
	for _, table := range []string{"Port", "Interface"} {
		if names := r.names(table); len(names) > 0 {
			r.t.Errorf("table %s has %s", table, names)
		}
	}
	if dump := r.database.Dump("Bridge", "name", "ports"); !strings.Contains(dump, "br-int,[]") {
		r.t.Errorf("bridges are %s", dump)
	}
	links, err := r.host.Links()
	must(r.t, err)
	for _, l := range links {
		if _, ok := ours(l); ok {
			r.t.Errorf("link %s is left", l.Name)
		}
	}
}

// names lists the rows of a table.
func (r *realNode) names(table string) []string {
	return strings.Fields(r.database.Dump(table, "name"))
}

// TestEngine_DatabaseRestartsDuringADDAndDEL loses the database while an ADD waits and while a DEL runs.
func TestEngine_DatabaseRestartsDuringADDAndDEL(t *testing.T) {
	r := newRealNode(t)
	committed := make(chan struct{})
	r.srv.deps.Stage = func(stage string, _ time.Duration) {
		if stage == "attach" {
			close(committed)
		}
	}
	done := r.start(addWeb(sandboxA, r.pods[0]))
	<-committed
	r.database.Restart()
	r.controller(web)
	must(t, <-done) // it goes on with the next generation

	r.database.Kill()
	until(t, "the loss is noticed", func() bool { return !r.db.Connected() })
	if _, err := r.do(addWeb(sandboxB, r.pods[1])); codeOf(err) != 11 {
		t.Errorf("ADD without database: %v, want code 11", err)
	}
	r.mustDo(delWeb(sandboxA, r.pods[0]))
	r.database.Restart()
	until(t, "the replica is back", r.db.Connected)
	must(t, r.srv.Sweep(t.Context()))
	r.wantEmpty()
}

// TestEngine_MissingBridgeIsAnError: br-int is ovn-controller's to make.
func TestEngine_MissingBridgeIsAnError(t *testing.T) {
	r := newRealNode(t)
	r.ovs.Bridge = "br-other"
	_, err := r.do(addWeb(sandboxA, r.pods[0]))
	if codeOf(err) != CodeAttach || !contains(err, "br-other") {
		t.Errorf("ADD: %v, want code %d naming the bridge", err, CodeAttach)
	}
	r.wantEmpty()
}

// TestEngine_SweepKeepsRowsOfOthers: rows without our owner are not ours to remove.
func TestEngine_SweepKeepsRowsOfOthers(t *testing.T) {
	r := newRealNode(t)
	r.database.Transact(`{"op":"insert","table":"Interface","row":{"name":"eth1"},"uuid-name":"i"},
		{"op":"insert","table":"Port","row":{"name":"eth1","interfaces":["named-uuid","i"]},"uuid-name":"p"},
		{"op":"mutate","table":"Bridge","where":[["name","==","br-int"]],"mutations":[["ports","insert",["named-uuid","p"]]]}`)
	r.controller(web)
	r.mustDo(addWeb(sandboxA, r.pods[0]))
	r.putPod(web, nil)
	must(t, r.srv.Sweep(t.Context()))
	if names := r.names("Port"); !slices.Equal(names, []string{"eth1"}) {
		t.Errorf("ports after the sweep: %v", names)
	}
}

// TestEngine_EmptyDatabase: OVS was installed again, and its database has lost the ports.
func TestEngine_EmptyDatabase(t *testing.T) {
	r := newRealNode(t)
	empty := r.database.Backup()
	r.controller(web)
	r.mustDo(addWeb(sandboxA, r.pods[0]))
	before := r.database.Dump("Interface", "name", "external_ids")
	lose := func() {
		t.Helper()
		r.database.Kill()
		until(t, "the loss is noticed", func() bool { return !r.db.Connected() })
		r.database.Replace(empty)
		until(t, "the replica is back", r.db.Connected)
		if names := r.names("Port"); len(names) > 0 {
			t.Fatalf("ports %v", names)
		}
	}
	lose()
	must(t, r.srv.Sweep(t.Context()))
	check := addWeb(sandboxA, r.pods[0])
	check.Command = "CHECK"
	until(t, "the pod's network is whole", func() bool { _, err := r.do(check); return err == nil })
	if after := r.database.Dump("Interface", "name", "external_ids"); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	lose()
	r.putPod(web, nil) // negative control
	must(t, r.srv.Sweep(t.Context()))
	r.wantEmpty()
}
