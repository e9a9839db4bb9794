package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ci "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/engine"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestHelmTest_IsNoPartOfManifests: its objects are hooks of Helm, are valid, and are not applied with the others.
func TestHelmTest_IsNoPartOfManifests(t *testing.T) {
	for name, want := range map[string]int{"connectivity.yaml": 3, "quick.yaml": 11} {
		text, files := renderTest(t, name)
		objects, err := decode(map[string][]byte{name: []byte(text)})
		if err != nil || len(objects) != want {
			t.Fatalf("%s: %d objects, %v", name, len(objects), err)
		}
		if n := strings.Count(text, `"helm.sh/hook":"test"`); n != want {
			t.Errorf("%s: %d hooks", name, n)
		}
		if _, ok := files[name]; ok {
			t.Error("the manifests have the test")
		}
	}
}

// TestHelmTest_AccountHasOnlyTheRightsOfTheTest: outside the test's namespace it may read, and only what the test needs.
func TestHelmTest_AccountHasOnlyTheRightsOfTheTest(t *testing.T) {
	text, _ := renderTest(t, "quick.yaml")
	objects, err := decode(map[string][]byte{"quick.yaml": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	add := func(where string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			got = append(got, fmt.Sprintf("%s: %s %q %s %s", where, r.Verbs, r.APIGroups, r.Resources, r.ResourceNames))
		}
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			add("everywhere", o.Rules)
		case *rbacv1.Role:
			add(o.Namespace, o.Rules)
		}
	}
	want := []string{
		`everywhere: [get list] [""] [nodes] []`,
		`everywhere: [get] [""] [namespaces] [ovn-offload-test]`,
		`default: [get] [""] [services] [kubernetes]`,
		`ovn-offload-test: [list create delete] [""] [pods services] []`,
		`ovn-offload-test: [get create] [""] [pods/exec] []`,
		`ovn-offload-test: [create delete] ["networking.k8s.io"] [networkpolicies] []`,
		`ovn-kubernetes: [list] [""] [pods] []`,
		`ovn-kubernetes: [get] [""] [pods/log] []`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func renderTest(t *testing.T, name string) (text string, files map[string]string) {
	t.Helper()
	chart, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	files, err = renderWith(chart, Example(), func(c ci.Charter, v common.Values) (map[string]string, error) {
		all, err := engine.Render(c, v)
		text = all["ovn-offload/templates/tests/"+name]
		return all, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text, files
}
