package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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
			most, err := intstr.GetScaledValueFromIntOrPercent(d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, nodes, true)
			if err != nil || most <= down {
				t.Errorf("%s: with %d of %d nodes down no pod is replaced: %d may be unavailable, %v", d.Name, down, nodes, most, err)
			}
		})
	}
	if seen != 5 {
		t.Errorf("%d DaemonSets, want 5", seen)
	}
}
