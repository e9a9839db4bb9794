package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkMemory: what callers make the relay keep ends the relay and no other process of its node. The Go runtime collects before that.
func checkMemory(t *testing.T, objects []runtime.Object) {
	t.Helper()
	for _, object := range objects {
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		c := d.Spec.Template.Spec.Containers[0]
		soft := ""
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				soft = strings.TrimSuffix(e.Value, "B") // as Kubernetes writes it
			}
		}
		collects, err := resource.ParseQuantity(soft)
		if err != nil {
			t.Fatal(soft, err)
		}
		limit, request := c.Resources.Limits[corev1.ResourceMemory], c.Resources.Requests[corev1.ResourceMemory]
		if len(c.Resources.Limits) != 1 || limit.Cmp(collects) <= 0 || request.Cmp(resource.MustParse("300Mi")) < 0 {
			t.Errorf("memory: request %s, limit %s, collected at %s; limits %v", &request, &limit, soft, c.Resources.Limits)
		}
		return
	}
	t.Error("there is no Deployment")
}

// TestRelay_IsOnByItsValueAndOnlyReads: it has no right to change anything, to read a Secret, or to execute in a pod.
func TestRelay_IsOnByItsValueAndOnlyReads(t *testing.T) {
	const file = "55-relay.yaml"
	off, err := Render(with(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(off[file]) != "" {
		t.Error("the relay is on by default")
	}
	on, err := Render(with(t, "relay: {enabled: true, replicas: 3}"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(map[string][]byte{file: []byte(on[file])})
	if err != nil {
		t.Fatal(err)
	}
	found := slices.Concat(checkSettings(objects), checkVolumes(objects), checkPods(objects))
	for _, problem := range found {
		// the settings are in another file; and the relay has an address of the network: without it kubectl offload works
		if !strings.Contains(problem, "ovn-config") && !strings.Contains(problem, "cannot start before the network") {
			t.Error(problem)
		}
	}
	var rights []string
	check := func(role string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				if slices.Contains([]string{"get", "list", "watch"}, verb) && !slices.Contains(rule.Resources, "secrets") {
					continue
				}
				rights = append(rights, fmt.Sprintf("%s: %s %v", role, verb, rule.Resources))
			}
		}
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.Role:
			check(o.Name, o.Rules)
		case *rbacv1.ClusterRole:
			check(o.Name, o.Rules)
		}
	}
	want := []string{"ovn-offload-relay: create [tokenreviews]", "ovn-offload-relay: create [subjectaccessreviews]"}
	if !slices.Equal(rights, want) {
		t.Errorf("rights that are not to read: %v, want %v", rights, want)
	}
	checkMemory(t, objects)
	if !strings.Contains(on[file], "replicas: 3") {
		t.Error("the number of replicas is not that of the values")
	}
}
