package deploy

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/permit"
)

// TestPackets_OneRoleHasTheRights to capture and to inject, nothing else in it, and no other role has them: the role admin of a namespace
// would promise what needs pods/exec in the namespace of the network.
func TestPackets_OneRoleHasTheRights(t *testing.T) {
	objects := chartObjects(t, "relay: {enabled: true}")
	found := false
	for _, object := range objects {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			if !slices.Contains(rule.Resources, permit.Captures) && !slices.Contains(rule.Resources, permit.Injections) && !slices.Contains(rule.Resources, "*") {
				continue
			}
			if role.Name != "ovn-offload-packets" {
				t.Errorf("%s has %v", role.Name, rule)
				continue
			}
			found = slices.Equal(rule.Resources, []string{permit.Captures, permit.Injections}) && slices.Equal(rule.Verbs, []string{"create"}) && len(role.Rules) == 1
			for label := range role.Labels {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
					t.Errorf("%s is a part of other roles: %s", role.Name, label)
				}
			}
		}
	}
	if !found {
		t.Error("no role may capture and inject, or it may more")
	}
}

// chartObjects are those of the chart with these values.
func chartObjects(t *testing.T, values string) []runtime.Object {
	t.Helper()
	objects, err := decode(renderAll(t, with(t, values)))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
