package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// APIPage is docs/api.md: every field of the project's own kinds, from the CRDs of the chart.
func APIPage() (string, error) {
	manifests, err := Render(Example())
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString("# API reference\n\nMade by `make generate` from the CRDs of the chart. Fields without \"required\" are optional. kubectl shows\n" +
		"the same texts:\n\n    kubectl explain offloadpolicy.spec\n    kubectl explain nodeoffload.status.devices\n    kubectl explain udn.spec.layer2\n")
	var all []string
	for _, file := range []string{"15-crds.yaml", "17-udn-crds.yaml", "19-ovn4nfv-crds.yaml"} {
		all = append(all, strings.Split(manifests[file], "\n---\n")...)
	}
	for _, text := range all {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(text), &crd); err != nil {
			return "", fmt.Errorf("reading a CRD: %w", err)
		}
		for _, version := range crd.Spec.Versions {
			schema := version.Schema.OpenAPIV3Schema
			fmt.Fprintf(&page, "\n## %s\n\n%s\n\n", crd.Spec.Names.Kind, schema.Description)
			fmt.Fprintf(&page, "`apiVersion: %s/%s`, `kubectl get %s.%s`", crd.Spec.Group, version.Name, crd.Spec.Names.Plural, crd.Spec.Group)
			if names := crd.Spec.Names.ShortNames; len(names) > 0 {
				fmt.Fprintf(&page, ", short name `%s`", strings.Join(names, "`, `"))
			}
			page.WriteString("\n\n")
			page.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
			fields(&page, "", *schema)
		}
	}
	return page.String(), nil
}

// fields writes a line for each field below a path. What all objects have is left out.
func fields(page *strings.Builder, path string, in apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
		if path == "" && name != "spec" && name != "status" {
			continue
		}
		p := in.Properties[name]
		meaning := strings.ReplaceAll(strings.ReplaceAll(p.Description, "\n\n", " "), "\n", " ")
		fmt.Fprintf(page, "| `%s%s` | %s | %s |\n", path, name, kind(p, slices.Contains(in.Required, name)), meaning)
		fields(page, path+name+".", p)
		if p.Items != nil {
			fields(page, path+name+"[].", *p.Items.Schema)
		}
		for _, rule := range p.XValidations {
			fmt.Fprintf(page, "| `%s%s` | | Refused with `%s` |\n", path, name, rule.Message)
		}
	}
}

// kind says which values a field takes.
func kind(p apiextensionsv1.JSONSchemaProps, required bool) string {
	words := []string{p.Type}
	of := p
	switch {
	case p.Items != nil && p.Items.Schema.Type != "object":
		words, of = []string{p.Type + " of " + p.Items.Schema.Type}, *p.Items.Schema
	case p.AdditionalProperties != nil:
		words = []string{"map of " + p.AdditionalProperties.Schema.Type}
	}
	if required {
		words = append(words, "required")
	}
	if len(of.Enum) > 0 {
		var values []string
		for _, e := range of.Enum {
			values = append(values, "`"+strings.Trim(string(e.Raw), `"`)+"`")
		}
		words = append(words, strings.Join(values, " or "))
	}
	if of.Minimum != nil {
		words = append(words, fmt.Sprintf("from %g", *of.Minimum))
	}
	if of.Maximum != nil {
		words = append(words, fmt.Sprintf("to %g", *of.Maximum))
	}
	if of.Pattern != "" {
		words = append(words, "`"+of.Pattern+"`")
	}
	if p.Default != nil {
		words = append(words, "default `"+strings.Trim(string(p.Default.Raw), `"`)+"`")
	}
	return strings.Join(words, ", ")
}
