package plug

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

type tables map[string][]any

func (t tables) Table(name string) []any { return t[name] }

func TestSameDatapath_NamesBridgeThatCannotBeJoined(t *testing.T) {
	for name, c := range map[string]struct {
		mappings string
		bridges  map[string]string
		want     string
	}{
		"the kernel's, written and not":   {"physnet:breth0", map[string]string{"br-int": "", "breth0": "system"}, ""},
		"userspace":                       {"physnet:breth0", map[string]string{"br-int": "netdev", "breth0": "netdev"}, ""},
		"OVS-DOCA":                        {"physnet:ovsbr1", map[string]string{"br-int": "system", "ovsbr1": "netdev"}, `bridge ovsbr1 has the datapath "netdev" and br-int has "system"`},
		"a second network":                {"a:br-a,b:br-b", map[string]string{"br-int": "", "br-a": "", "br-b": "netdev"}, "bridge br-b"},
		"a bridge of others":              {"physnet:breth0", map[string]string{"br-int": "", "breth0": "", "other": "netdev"}, ""},
		"without an integration bridge":   {"physnet:ovsbr1", map[string]string{"ovsbr1": "netdev"}, ""},
		"a mapping to a bridge not there": {"physnet:ovsbr1", map[string]string{"br-int": ""}, ""},
		"without a mapping":               {"", map[string]string{"br-int": "", "ovsbr1": "netdev"}, ""},
	} {
		db := tables{vswitch.OpenvSwitchTable: {&vswitch.OpenvSwitch{ExternalIDs: map[string]string{bridgeMappings: c.mappings}}}}
		for bridge, datapath := range c.bridges {
			db[vswitch.BridgeTable] = append(db[vswitch.BridgeTable], &vswitch.Bridge{Name: bridge, DatapathType: datapath})
		}
		if err := SameDatapath(db, "br-int"); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
