package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const placementKind = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

// TestPlacement_IsForClustersWithTheKind: with the API, pods are placed by the label that agents write. Without the API, or
// with the value, the chart has no object of the kind.
func TestPlacement_IsForClustersWithTheKind(t *testing.T) {
	c, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	off := maps.Clone(Example())
	off["networks"] = map[string]any{"placement": false}
	for _, tc := range []struct {
		name   string
		values map[string]any
		kinds  []string
		want   int
	}{
		{"with the kind", Example(), []string{placementKind}, 1},
		{"without the kind", Example(), nil, 0},
		{"without the value", off, []string{placementKind}, 0},
	} {
		rendered, err := render(c, tc.values, tc.kinds...)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for name, text := range rendered {
			if slices.Contains([]string{"23-network-admission.yaml", "24-placement.yaml"}, name) {
				files[name] = []byte(text)
			}
		}
		objects, err := decode(files)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		each(objects, func(o *admissionv1.MutatingAdmissionPolicy) {
			found++
			patch := o.Spec.Mutations[0].JSONPatch.Expression
			if !strings.Contains(patch, contract.PhysicalNetworkLabel) || !strings.Contains(patch, "!= '"+contract.PhysicalNetwork+"'") {
				t.Errorf("the patch does not have the label of nodes: %s", patch)
			}
			for _, key := range []string{contract.NetworksKey, contract.NodusNetworksKey, contract.OVNNetworkKey} {
				if !strings.Contains(o.Spec.MatchConditions[0].Expression, "'"+key+"'") {
					t.Errorf("pods with annotation %s are not looked at", key)
				}
			}
		})
		if found != tc.want {
			t.Errorf("%s: %d policies, want %d", tc.name, found, tc.want)
		}
	}
}
