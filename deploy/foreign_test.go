package deploy

import (
	"strings"
	"testing"

	ci "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// objects stand for a cluster in which Helm looks up facts.
type objects []runtime.Object

func (o objects) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	return fake.NewSimpleDynamicClient(scheme.Scheme, o...).Resource(resource), kind != "Node", nil
}

func (o objects) render(values map[string]any) error {
	c, err := Chart()
	if err != nil {
		return err
	}
	_, err = renderWith(c, values, func(c ci.Charter, v common.Values) (map[string]string, error) {
		return engine.RenderWithClientProvider(c, v, o)
	})
	return err
}

func daemonSet(namespace string, labels map[string]string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	set.Name, set.Namespace = "ovnkube-node", namespace
	set.Spec.Template.Labels = labels
	return set
}

// TestRender_RefusesOVNKubernetesInNamespace: with OVN-Kubernetes' labels of pods, and not with this chart's own.
func TestRender_RefusesOVNKubernetesInNamespace(t *testing.T) {
	foreign := map[string]string{"app": "ovnkube-node", "name": "ovnkube-node", "component": "network", "type": "infra"}
	for _, tc := range []struct {
		name   string
		found  objects
		values string
		want   string
	}{
		{"empty cluster", nil, "", ""},
		{"OVN-Kubernetes", objects{daemonSet(Namespace, foreign)}, "", "(daemonset/ovnkube-node): remove it first as docs/migrate/ovn-kubernetes.md says, or set migration.ignoreOVNKubernetes=true"},
		{"ignored", objects{daemonSet(Namespace, foreign)}, "migration: {ignoreOVNKubernetes: true}", ""},
		{"another namespace", objects{daemonSet("other", foreign)}, "", ""},
		{"this chart", objects{daemonSet(Namespace, map[string]string{"app": "ovnkube-node"})}, "", ""},
		{"no labels", objects{daemonSet(Namespace, nil)}, "", ""},
	} {
		switch err := tc.found.render(with(t, tc.values)); {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
