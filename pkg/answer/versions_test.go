package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// versionsOf is a cluster with a controller and agents of versions. holder holds the Lease that the controller one has written.
func versionsOf(holder, controller string, agents ...string) *snapshot.Snapshot {
	s := snapshot.New(taken, "ovn-kubernetes")
	for i, version := range agents {
		s.Add(snapshot.NodeOffloads, map[string]any{
			"metadata": map[string]any{"name": fmt.Sprint("w", i)}, "status": map[string]any{"versions": map[string]any{"agent": version}},
		})
	}
	s.Add(snapshot.Leases, map[string]any{
		"metadata": map[string]any{"name": "ovn-kubernetes-master", "namespace": "ovn-kubernetes", "annotations": map[string]any{"ovn-offload.io/leader-version": controller + " one"}},
		"spec":     map[string]any{"holderIdentity": holder},
	})
	return s
}

// TestVersions_SaysWhatMayNotRunTogether, by the rules of docs/upgrade.md. What cannot be compared is not known.
func TestVersions_SaysWhatMayNotRunTogether(t *testing.T) {
	for name, c := range map[string]struct {
		plugin string
		s      *snapshot.Snapshot
		code   Code
		says   string
	}{
		"equal":                      {"v0.2.0", versionsOf("one", "v0.2.0", "v0.2.0"), Good, "agents      v0.2.0 (1 node)\nthese versions may run together"},
		"patches":                    {"v0.2.9", versionsOf("one", "v0.2.1", "v0.2.4", "v0.2.0"), Good, "may run together"},
		"an upgrade":                 {"v0.2.0", versionsOf("one", "v0.2.0", "v0.2.0", "v0.1.0"), Good, "v0.1.0 (1 node), v0.2.0 (1 node)"},
		"a neighbouring plugin":      {"v0.3.0", versionsOf("one", "v0.2.0", "v0.2.0"), Good, "may run together"},
		"agents ahead":               {"v0.2.0", versionsOf("one", "v0.1.0", "v0.2.0", "v0.2.0"), Degraded, "agents of 2 nodes, v0.2.0, are ahead of the controller, v0.1.0"},
		"agents two behind":          {"v0.2.0", versionsOf("one", "v0.3.0", "v0.3.0", "v0.1.0"), Degraded, "not supported: the controller, v0.3.0, and agents of 1 node, v0.1.0: more"},
		"a plugin two behind":        {"v0.1.0", versionsOf("one", "v0.3.0", "v0.3.0"), Degraded, "the plugin, v0.1.0, and the controller, v0.3.0: more"},
		"another major version":      {"v1.0.0", versionsOf("one", "v0.9.0", "v0.9.0"), Degraded, "the plugin, v1.0.0, and agents of 1 node, v0.9.0: more"},
		"no release":                 {"dev", versionsOf("one", "v0.1.0", "v0.1.0"), Uncertain, "the plugin, dev, and the controller, v0.1.0: no versions of releases"},
		"one that is no release":     {"dev", versionsOf("one", "dev", "dev"), Good, "may run together"},
		"a former controller":        {"v0.2.0", versionsOf("two", "v0.2.0", "v0.1.0"), Uncertain, "version of the controller: none leads, or the one that leads does not say it"},
		"agents of no known version": {"v0.2.0", versionsOf("one", "v0.2.0"), Uncertain, "no NodeOffload has one"},
	} {
		v, err := NewVersions(c.s, c.plugin)
		if err != nil {
			t.Fatal(err)
		}
		got := text(t, v) + strings.Join(v.Missing, "\n")
		if v.Code != c.code || !strings.Contains(got, c.says) || strings.Contains(got, "may run together") != (c.code == Good) ||
			(v.Next == "kubectl offload status") != (len(v.Skew) == 0) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, v.Code, c.code, c.says, got)
		}
	}
	s := snapshot.New(taken, "ovn-kubernetes")
	if v := ClientVersion(s, "v0.2.0"); v.Code != Good || v.Next != "" || text(t, v) != "plugin  v0.2.0\n" {
		t.Errorf("%+v", v)
	}
	s.Missing[snapshot.Leases], s.Missing[snapshot.NodeOffloads] = "forbidden", "forbidden"
	if v, err := NewVersions(s, "v0.2.0"); err != nil || v.Code != Uncertain || len(v.Missing) != 2 {
		t.Errorf("%v, %+v", err, v)
	}
}
