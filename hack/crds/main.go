// Command crds writes the CRDs in the chart from the Go types of our API groups, with the library of controller-gen.
//
//	pkg/kube/v1alpha1, its comments and markers -> crds -> deploy/chart/templates/15-crds.yaml
//	pkg/kube/ovnv1                              -> crds -> deploy/chart/templates/17-udn-crds.yaml
//	pkg/kube/opnfv                              -> crds -> deploy/chart/templates/19-ovn4nfv-crds.yaml
//
// Comments of fields become the texts of kubectl explain; markers (+kubebuilder:...) become validation and columns. Around
// each CRD stand the chart's conditions. A module of its own keeps controller-gen out of the product's modules.
//
//	crds         write the files
//	crds -check  write nothing; fail when a file is not current
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

// file is a file of the chart, made from the types of a package. The kinds of a file with condition networks are also other
// networks' kinds: a CRD that another owner has installed stays that owner's.
type file struct {
	types, target string
	networks      bool
}

// files are those of the chart.
func files() []file {
	return []file{
		{"./pkg/kube/v1alpha1", "deploy/chart/templates/15-crds.yaml", false},
		{"./pkg/kube/ovnv1", "deploy/chart/templates/17-udn-crds.yaml", true},
		{"./pkg/kube/opnfv", "deploy/chart/templates/19-ovn4nfv-crds.yaml", true},
	}
}

const (
	head = `{{- if and .Values.controlPlane.enabled .Values.crds.install%s }}
# Made by hack/crds from %s: change the types there, then run make generate.
`
	found = `{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "%s" }}
{{- if or (not $found) (eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found) .Release.Name) }}
`
	keep = `  {{- if $.Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep # so that removing the chart keeps the objects
  {{- end }}
`
	tail = "{{- end }}\n"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail when the file is not current")
	root := flag.String("root", "../..", "the root of the repository")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	var errs []error
	for _, f := range files() {
		errs = append(errs, f.write(root, check))
	}
	return errors.Join(errs...)
}

// write makes the file, or compares it with what it would be.
func (f file) write(root string, check bool) error {
	crds, err := generate(root, f.types)
	if err != nil {
		return fmt.Errorf("generating CRDs from %s: %w", f.types, err)
	}
	text, err := f.template(crds)
	if err != nil {
		return err
	}
	path := filepath.Join(root, f.target)
	if !check {
		return os.WriteFile(path, text, 0o644)
	}
	current, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(current, text) {
		return fmt.Errorf("%s is not current; run make generate", f.target)
	}
	return nil
}

// generate gives the CRDs of all kinds in a package, by name.
func generate(root, types string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Dir: root}, types)
	if err != nil {
		return nil, err
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, err
	}
	parser := &crd.Parser{Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{}}
	crd.AddKnownTypes(parser)
	for _, pkg := range roots {
		parser.NeedPackage(pkg)
	}
	var crds []apiextensionsv1.CustomResourceDefinition
	for _, kind := range crd.FindKubeKinds(parser, crd.FindMetav1(roots)) {
		parser.NeedCRDFor(kind, nil)
		crds = append(crds, parser.CustomResourceDefinitions[kind])
	}
	if loader.PrintErrors(roots, packages.TypeError) || len(crds) == 0 {
		return nil, fmt.Errorf("%d kinds found, or errors", len(crds))
	}
	slices.SortFunc(crds, func(a, b apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return crds, nil
}

// template is the text of the file.
func (f file) template(crds []apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	out, condition := &bytes.Buffer{}, ""
	if f.networks {
		condition = " .Values.networks.enabled"
	}
	fmt.Fprintf(out, head, condition, strings.TrimPrefix(f.types, "./"))
	for i, c := range crds {
		restrict(c.Spec.Versions)
		text, err := document(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		name := "\n  name: " + c.Name + "\n"
		text = strings.Replace(text, name, name+keep, 1)
		if f.networks {
			text = fmt.Sprintf(found, c.Name) + text + tail
		}
		out.WriteString(text)
	}
	out.WriteString(tail)
	return out.Bytes(), nil
}

// restrict adds what Kubernetes' own type of a label selector says in words only.
func restrict(versions []apiextensionsv1.CustomResourceDefinitionVersion) {
	for _, v := range versions {
		spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
		for _, name := range []string{"nodeSelector", "namespaceSelector"} {
			selector, ok := spec.Properties[name]
			if !ok {
				continue
			}
			expression := selector.Properties["matchExpressions"].Items.Schema
			operator := expression.Properties["operator"]
			for _, o := range []string{"In", "NotIn", "Exists", "DoesNotExist"} {
				operator.Enum = append(operator.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + o + `"`)})
			}
			expression.Properties["operator"] = operator
		}
	}
}

// document is a CRD in YAML, without the status that the API server writes. The chart's engine must not take a comment of
// a type for a template.
func document(c apiextensionsv1.CustomResourceDefinition) (string, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return "", err
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(text, &object); err != nil {
		return "", err
	}
	delete(object, "status")
	for _, version := range object["spec"].(map[string]any)["versions"].([]any) {
		if v := version.(map[string]any); len(v["subresources"].(map[string]any)) == 0 {
			delete(v, "subresources")
		}
	}
	if text, err = yaml.Marshal(object); err != nil {
		return "", err
	}
	if bytes.Contains(text, []byte("{{")) {
		return "", errors.New("a text has {{, which begins a template in the chart")
	}
	return string(text), nil
}
