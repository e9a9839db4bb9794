package deploy

import (
	"strings"
	"testing"

	ci "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/engine"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const networkCRDs = "16-network-crds.yaml"

// crdOf is the NetworkAttachmentDefinition's CustomResourceDefinition of a release of Helm, or of another owner.
func crdOf(release string) objects {
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	crd.SetName("network-attachment-definitions.k8s.cni.cncf.io")
	if release != "" {
		crd.SetAnnotations(map[string]string{"meta.helm.sh/release-name": release})
	}
	return objects{crd}
}

// TestRender_NetworkAttachmentDefinitionStaysItsOwners: a CRD that another made is no part of this release.
func TestRender_NetworkAttachmentDefinitionStaysItsOwners(t *testing.T) {
	for _, tc := range []struct {
		name   string
		found  objects
		values string
		want   bool
	}{
		{"a new cluster", nil, "", true},
		{"this release", crdOf("ovn-offload"), "", true},
		{"Multus by kubectl", crdOf(""), "", false},
		{"another release", crdOf("multus"), "", false},
		{"no networks", nil, "networks: {enabled: false}", false},
		{"no CRDs", nil, "crds: {install: false}", false},
	} {
		c, err := Chart()
		if err != nil {
			t.Fatal(err)
		}
		files, err := renderWith(c, with(t, tc.values), func(c ci.Charter, v common.Values) (map[string]string, error) {
			return engine.RenderWithClientProvider(c, v, tc.found)
		})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		text, got := files[networkCRDs]
		if got != tc.want {
			t.Errorf("%s: rendered: %v, want %v", tc.name, got, tc.want)
		}
		if !got {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(text), &crd); err != nil || crd.Name != crd.Spec.Names.Plural+"."+crd.Spec.Group {
			t.Errorf("%s: %q, %v", tc.name, crd.Name, err)
		}
	}
}

// TestRender_ControllerReadsNetworks: without networks, it has no right to read them.
func TestRender_ControllerReadsNetworks(t *testing.T) {
	for text, want := range map[string]bool{"": true, "networks: {enabled: false}": false} {
		rendered, err := Render(with(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(rendered["20-rbac.yaml"], "network-attachment-definitions"); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
