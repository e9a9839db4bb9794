package deploy

import (
	"strings"
	"testing"

	ci "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/engine"
)

// TestHelmTest_IsNoPartOfManifests: its objects are hooks of Helm, are valid, and are not applied with the others.
func TestHelmTest_IsNoPartOfManifests(t *testing.T) {
	var text string
	chart, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	files, err := renderWith(chart, Example(), func(c ci.Charter, v common.Values) (map[string]string, error) {
		all, err := engine.Render(c, v)
		text = all["ovn-offload/templates/tests/connectivity.yaml"]
		return all, err
	})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(map[string][]byte{"connectivity.yaml": []byte(text)})
	if err != nil || len(objects) != 3 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	if n := strings.Count(text, `"helm.sh/hook":"test"`); n != 3 {
		t.Errorf("%d hooks", n)
	}
	if _, ok := files["connectivity.yaml"]; ok {
		t.Error("the manifests have the test")
	}
}
