package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// TestDaemonSets_RollOutGoesOnWithNodesDown: a DaemonSet counts nodes that are down
// among the unavailable ones, and of 2,000 nodes some always are.
func TestDaemonSets_RollOutGoesOnWithNodesDown(t *testing.T) {
	const nodes, down = 2000, 20
	seen := 0
	for _, files := range []map[string][]byte{manifests(t), dpuManifests(t)} {
		objects, err := decode(files)
		if err != nil {
			t.Fatal(err)
		}
		each(objects, func(d *appsv1.DaemonSet) {
			seen++
			limit := d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable
			if surge := d.Spec.UpdateStrategy.RollingUpdate.MaxSurge; surge != nil {
				limit = surge // of a node that is down the new pod is not Ready
			}
			most, err := intstr.GetScaledValueFromIntOrPercent(limit, nodes, true)
			if err != nil || most <= down {
				t.Errorf("%s: with %d of %d nodes down no pod is replaced: the limit is %d, %v", d.Name, down, nodes, most, err)
			}
		})
	}
	if seen != 7 {
		t.Errorf("%d DaemonSets, want 7", seen)
	}
}

// TestRender_UpdateStrategyOfDaemonSets: all DaemonSets of nodes have the strategy of the values. A pod of Open vSwitch is
// beside the one that it replaces, so that its image is there before the node loses its network.
func TestRender_UpdateStrategyOfDaemonSets(t *testing.T) {
	const all = "dpuHosts: {enabled: true}\ndpus: {enabled: true}\n"
	for text, want := range map[string]string{
		"":                                    "RollingUpdate 10%",
		"updateStrategy: {maxUnavailable: 3}": "RollingUpdate 3",
		"updateStrategy: {type: OnDelete}":    "OnDelete",
		"updateStrategy: {type: OnDelete, maxUnavailable: 2}": "OnDelete",
	} {
		rendered, err := Render(with(t, all+text))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, file := range []string{"60-ovs-node.yaml", "70-ovnkube-node.yaml", "80-ovnkube-node-dpu-host.yaml", "90-ovnkube-node-dpu.yaml"} {
			var set appsv1.DaemonSet
			if err := yaml.Unmarshal([]byte(rendered[file]), &set); err != nil {
				t.Fatal(err)
			}
			got[set.Name] = string(set.Spec.UpdateStrategy.Type)
			if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
				got[set.Name] += " " + rolling.MaxUnavailable.String()
				if rolling.MaxSurge != nil {
					got[set.Name] += " surge " + rolling.MaxSurge.String()
				}
			}
		}
		surge := strings.Replace(want, "RollingUpdate ", "RollingUpdate 0 surge ", 1)
		wanted := map[string]string{"ovs-node": surge, "ovnkube-node": want, "ovnkube-node-dpu-host": want, "ovnkube-node-dpu": want}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
