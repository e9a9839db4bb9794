package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kind validates objects as the API server does.
type kind struct {
	schema *structural.Structural
	fields validation.SchemaValidator
	rules  *cel.Validator
}

// kinds are those of a rendered file. Each CRD passes the API server's own validation, which has limits on the cost of
// rules.
func kinds(t *testing.T, file string) map[string]kind {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	all := map[string]kind{}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		external, crd := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(doc, external); err != nil {
			t.Fatal(err)
		}
		scheme.Default(external)
		external.Status.StoredVersions = []string{external.Spec.Versions[0].Name}
		if err := scheme.Convert(external, crd, nil); err != nil {
			t.Fatal(err)
		}
		if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
			t.Errorf("%s: %v", crd.Name, errs.ToAggregate())
		}
		all[crd.Spec.Names.Kind] = newKind(t, crd.Spec.Validation.OpenAPIV3Schema)
	}
}

func newKind(t *testing.T, schema *apiextensions.JSONSchemaProps) kind {
	t.Helper()
	s, err := structural.NewStructural(schema)
	if err != nil {
		t.Fatal(err)
	}
	fields, _, err := validation.NewSchemaValidator(schema)
	if err != nil {
		t.Fatal(err)
	}
	return kind{s, fields, cel.NewValidator(s, true, math.MaxInt64)}
}

// refusal is why the API server refuses an object, which replaces another unless old is nil: "" when the object is
// accepted. Rules see the schema's defaults. A field that the schema does not have is refused, as kubectl's strict
// validation does.
func (k kind) refusal(t *testing.T, object, old map[string]any) string {
	t.Helper()
	for _, o := range []map[string]any{object, old} {
		defaulting.Default(o, k.schema)
	}
	errs := validation.ValidateCustomResource(nil, object, k.fields)
	if len(errs) == 0 {
		var before any
		if old != nil {
			before = old
		}
		errs, _ = k.rules.Validate(t.Context(), nil, k.schema, object, before, math.MaxInt64)
	}
	if err := errs.ToAggregate(); err != nil {
		return err.Error()
	}
	pruned := runtime.DeepCopyJSON(object)
	if unknown := pruning.PruneWithOptions(pruned, k.schema, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(unknown) > 0 {
		return "unknown field " + unknown[0]
	}
	return ""
}

// read is an object of a kind with a spec in YAML.
func read(t *testing.T, apiVersion, kind, spec string) map[string]any {
	t.Helper()
	content := map[string]any{}
	if err := utilyaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "net", "namespace": "ns"}, "spec": content}
}

// messages are those of all rules of a schema.
func messages(k kind) (out []string) {
	var walk func(s *structural.Structural)
	walk = func(s *structural.Structural) {
		for _, v := range s.XValidations {
			out = append(out, v.Message)
		}
		for _, p := range s.Properties {
			walk(&p)
		}
		if s.Items != nil {
			walk(s.Items)
		}
	}
	walk(k.schema)
	return out
}
