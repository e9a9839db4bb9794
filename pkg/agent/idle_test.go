package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// TestFull_IsIdleUntilPodsHaveNetwork: a port of a pod in Open vSwitch, or an answer to the kubelet, ends that.
func TestFull_IsIdleUntilPodsHaveNetwork(t *testing.T) {
	server := ovsdbtest.Start(t, vswitch.Definition)
	server.Transact(`{"op":"insert","table":"Open_vSwitch","row":{}}`)
	schema, err := vswitch.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	cfg := ovsdb.Defaults([]string{server.Endpoint()}, schema)
	cfg.Logger = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	db, err := ovsdb.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	dir := filepath.Join(t.TempDir(), "devices")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	claims, err := ledger.Open(dir, "boot")
	if err != nil {
		t.Fatal(err)
	}
	f := &full{ovs: &ovs{db: db}, vfs: &podVFs{functions: &cni.Functions{Ledger: claims}}}
	becomes := func(want bool, when string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); f.isIdle() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: idle %t", when, !want)
			}
		}
	}
	becomes(true, "without pods")
	port := func(name, owner string) string {
		ids := `"external_ids":["map",[["` + ovsdb.OwnerKey + `","` + owner + `"],["` + ovsdb.IDKey + `","` + name + `"]]]`
		return `{"op":"insert","table":"Interface","uuid-name":"i","row":{"name":"` + name + `",` + ids + `}},` +
			`{"op":"insert","table":"Port","uuid-name":"p","row":{"name":"` + name + `",` + ids + `,"interfaces":["named-uuid","i"]}},` +
			`{"op":"insert","table":"Bridge","uuid-name":"b","row":{"name":"br-` + name + `","ports":["named-uuid","p"]}},` +
			`{"op":"mutate","table":"Open_vSwitch","where":[],"mutations":[["bridges","insert",["named-uuid","b"]]]}`
	}
	server.Transact(port("eth0", "Node/n"))
	becomes(true, "with the node's own port")
	server.Transact(port("veth1", "Pod/default/web"))
	becomes(false, "with a pod's port")
	server.Transact(`{"op":"update","table":"Open_vSwitch","where":[],"row":{"bridges":["set",[]]}}`)
	becomes(true, "after a boot")
	f.serving.Store(true)
	becomes(false, "when the kubelet is answered")
}
