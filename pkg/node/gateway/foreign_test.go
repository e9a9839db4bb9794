package gateway

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// tables is a DB of which only what is in its tables is asked for.
type tables struct {
	node.DB
	rows map[string][]any
}

func (d tables) Table(name string) []any { return d.rows[name] }
func (d tables) Rows(string) []ovsdb.Row { return nil }

// TestForeign_ChangesOfPodsNeedNoPass: what comes and goes with each pod asks for no pass, what the
// gateway bridge stands on does.
func TestForeign_ChangesOfPodsNeedNoPass(t *testing.T) {
	opened := 7
	br := func(ids map[string]string) any {
		return &vswitch.Bridge{Name: contract.IntegrationBridge, ExternalIDs: ids}
	}
	port := func(name string, ids map[string]string) any {
		return &vswitch.Interface{Name: name, Ofport: &opened, ExternalIDs: ids}
	}
	pod := port("pod", map[string]string{ovsdb.OwnerKey: contract.PodOwner("d", "a").String()})
	db := tables{rows: map[string][]any{}}
	s := &Setup{bridge: &bridge{Host: &node.Host{Deps: node.Deps{DB: db}}}}
	for _, step := range []struct {
		what            string
		bridges, ifaces []any
		want            bool
	}{
		{"the first time", []any{br(nil)}, nil, true},
		{"a pod's port", []any{br(nil)}, []any{pod}, false},
		{"a pod's zone", []any{br(map[string]string{"ct-zone-d_a": "9"})}, []any{pod}, false},
		{"a patch port", []any{br(nil)}, []any{pod, port("patch", nil)}, true},
		{"nothing", []any{br(nil)}, []any{pod, port("patch", nil)}, false},
		{"an uplink is named", []any{br(map[string]string{uplinkKey: "eth1"})}, []any{pod, port("patch", nil)}, true},
		{"the patch port is gone", []any{br(map[string]string{uplinkKey: "eth1"})}, []any{pod}, true},
	} {
		db.rows[vswitch.BridgeTable], db.rows[vswitch.InterfaceTable] = step.bridges, step.ifaces
		if got := s.switchChanged(); got != step.want {
			t.Errorf("%s: changed %t, want %t", step.what, got, step.want)
		}
	}
}
