//go:build apiserver

package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/ovn-offload/ovn-offload/deploy"
)

// installChart creates the chart's objects in the order of their files, but for workloads. It returns when the API
// serves the chart's kinds and asks the chart's policies.
func (p *controlPlane) installChart(ctx context.Context) error {
	values := deploy.Example()
	values["apiServer"] = apiURL
	values["network"] = map[string]any{"podCIDRs": list(podSubnets), "serviceCIDRs": list(serviceSubnets)}
	values["networks"] = map[string]any{"native": true}
	values["dpuHosts"] = map[string]any{"enabled": true}
	rendered, err := deploy.Render(values)
	if err != nil {
		return err
	}
	var kinds []string
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(rendered[file])))
		for doc, err := reader.Read(); err == nil; doc, err = reader.Read() {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(doc, &object.Object); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			kind := object.GroupVersionKind()
			if len(object.Object) == 0 || kind.Group == "apps" || kind.Group == "batch" {
				continue
			}
			resource, _ := meta.UnsafeGuessKindToResource(kind)
			in := cluster.dynamic.Resource(resource).Namespace(object.GetNamespace())
			if _, err := in.Create(ctx, object, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if kind.Kind == "CustomResourceDefinition" {
				kinds = append(kinds, object.GetName())
			}
		}
	}
	if err := p.served(ctx, kinds); err != nil {
		return err
	}
	return p.inForce(ctx)
}

func list(text string) (all []any) {
	for part := range strings.SplitSeq(text, ",") {
		all = append(all, part)
	}
	return all
}

// served waits until the API serves the kinds of CustomResourceDefinitions.
func (p *controlPlane) served(ctx context.Context, crds []string) error {
	kinds := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}.WithResource("customresourcedefinitions")
	for _, name := range crds {
		err := p.poll(ctx, "CustomResourceDefinition "+name, func() error {
			u, err := cluster.dynamic.Resource(kinds).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			for _, c := range conditions {
				if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
					return nil
				}
			}
			return fmt.Errorf("its conditions are %v", conditions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inForce waits until the API server asks a policy that came after those of the chart: it then asks these, too.
func (p *controlPlane) inForce(ctx context.Context) error {
	const name = "last-policy"
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		ResourceNames: []string{name}, RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "false", Message: name}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = name, []admissionv1.ValidationAction{admissionv1.Deny}
	admission := cluster.client.AdmissionregistrationV1()
	if _, err := admission.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := admission.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	maps, object := cluster.client.CoreV1().ConfigMaps(system), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return p.poll(ctx, "admission policies", func() error {
		_, err := maps.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), name) {
			return nil
		}
		return fmt.Errorf("the last of them is not in force: %w", err)
	})
}
