package v1alpha1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// schemaOf is as much of a JSON schema as the API server takes in a CRD and
// ours use; anything else is an error of the strict decoder.
type schemaOf struct {
	Type, Format                   string
	Description, Pattern           string
	Required                       []string
	Enum                           []any
	Default                        any
	Properties                     map[string]*schemaOf
	Items                          *schemaOf
	AdditionalProperties           *schemaOf
	Minimum, Maximum               *int
	MinItems, MinLength, MaxLength *int
	MinProperties                  *int
	MapType                        string `json:"x-kubernetes-map-type"`
	IntOrString                    bool   `json:"x-kubernetes-int-or-string"`
	AnyOf                          []map[string]string
	MaxItems                       *int
	ListType                       string              `json:"x-kubernetes-list-type"`
	ListMapKeys                    []string            `json:"x-kubernetes-list-map-keys"`
	Validations                    []map[string]string `json:"x-kubernetes-validations"`
}

func schemas(t *testing.T) map[string]*schemaOf {
	t.Helper()
	content, err := os.ReadFile("../../../deploy/manifests/15-crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*schemaOf{}
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			APIVersion, Kind string
			Metadata         struct {
				Name        string
				Annotations map[string]string
			}
			Spec struct {
				Group, Scope string
				Names        struct {
					Kind, ListKind, Plural, Singular string
					ShortNames                       []string
				}
				Versions []struct {
					Name            string
					Served, Storage bool
					Columns         []struct {
						Name, Type, JSONPath, Description string
						Priority                          int
					} `json:"additionalPrinterColumns"`
					Subresources map[string]any
					Schema       struct {
						OpenAPIV3Schema schemaOf
					}
				}
			}
		}
		if err := sigsyaml.UnmarshalStrict(doc, &crd); err != nil {
			t.Fatal(err)
		}
		if crd.Metadata.Name != crd.Spec.Names.Plural+"."+crd.Spec.Group || crd.Spec.Scope != "Cluster" {
			t.Errorf("%s: name or scope", crd.Metadata.Name)
		}
		if crd.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s: Helm would remove it, with all objects, with the chart", crd.Metadata.Name)
		}
		version := crd.Spec.Versions[0]
		schema := version.Schema.OpenAPIV3Schema
		for _, c := range version.Columns {
			if strings.HasPrefix(c.JSONPath, ".metadata.") {
				continue
			}
			at := &schema
			for _, step := range strings.Split(strings.TrimPrefix(c.JSONPath, "."), ".") {
				if at = at.Properties[step]; at == nil {
					t.Fatalf("column %s: %s leads nowhere", c.Name, c.JSONPath)
				}
			}
			if at.Type != c.Type {
				t.Errorf("column %s is %s of type %s", c.Name, c.Type, at.Type)
			}
		}
		out[crd.Spec.Names.Kind] = &schema
	}
}

// The API server drops in silence a field that the schema lacks, and the agent never reads a field that the types lack. Each
// field has a description for kubectl explain. hack/crds makes the schema from the types; this test trusts no generator.
func TestSchemas_HaveFieldsOfTypes(t *testing.T) {
	all := schemas(t)
	for kind, object := range map[string]any{"NodeOffload": NodeOffload{}, "OffloadPolicy": OffloadPolicy{}} {
		schema := all[kind]
		if schema == nil {
			t.Fatalf("no CRD for %s", kind)
		}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(schema.Properties, name)
		}
		for _, p := range compare(kind, schema, reflect.TypeOf(object)) {
			t.Error(p)
		}
	}
	// The comparison finds what it is there for.
	for name, spoil := range map[string]func(*schemaOf){
		"missing":  func(s *schemaOf) { delete(s.Properties, "reason") },
		"extra":    func(s *schemaOf) { s.Properties["reasons"] = &schemaOf{Type: "string"} },
		"type":     func(s *schemaOf) { s.Properties["reason"].Type = "integer" },
		"optional": func(s *schemaOf) { s.Required = nil },
		"untyped":  func(s *schemaOf) { s.Properties["problems"].Items = nil },
		"silent":   func(s *schemaOf) { s.Properties["devices"].Items.Properties["mode"].Description = "" },
	} {
		status := schemas(t)["NodeOffload"].Properties["status"]
		spoil(status)
		if len(compare("status", status, reflect.TypeOf(NodeOffloadStatus{}))) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

func compare(path string, s *schemaOf, t reflect.Type) (problems []string) {
	complain := func(format string, args ...any) {
		problems = append(problems, path+": "+fmt.Sprintf(format, args...))
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := map[reflect.Kind]string{
		reflect.Struct: "object", reflect.Map: "object", reflect.Slice: "array", reflect.Bool: "boolean",
		reflect.String: "string", reflect.Int: "integer", reflect.Int32: "integer", reflect.Int64: "integer",
	}[t.Kind()]
	if t == reflect.TypeFor[intstr.IntOrString]() {
		if s == nil || !s.IntOrString {
			complain("not an integer or a string")
		}
		return problems
	}
	if t == reflect.TypeFor[metav1.Time]() {
		want = "string"
	}
	if s == nil || s.Type != want {
		complain("not of type %s", want)
		return problems
	}
	switch t.Kind() {
	case reflect.Slice:
		return append(problems, compare(path+"[]", s.Items, t.Elem())...)
	case reflect.Map:
		return append(problems, compare(path+"{}", s.AdditionalProperties, t.Elem())...)
	case reflect.Struct:
	default:
		return problems
	}
	if want == "string" {
		return problems
	}
	known := map[string]bool{}
	for field := range fieldsOf(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if optional == slices.Contains(s.Required, name) {
			complain("%s: required in one of schema and type", name)
		}
		if p := s.Properties[name]; p == nil || p.Description == "" {
			complain("%s has no description", name)
		}
		problems = append(problems, compare(path+"."+name, s.Properties[name], field.Type)...)
	}
	for name := range s.Properties {
		if !known[name] {
			complain("%s is in the schema only", name)
		}
	}
	return problems
}

// fieldsOf leaves out what every object has.
func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); !f.Anonymous && !yield(f) {
				return
			}
		}
	}
}

func TestEncode_DecodesToSameObject(t *testing.T) {
	percent, on := 95, true
	for _, object := range []any{
		&NodeOffload{
			TypeMeta:   metav1.TypeMeta{APIVersion: Version, Kind: "NodeOffload"},
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Status: NodeOffloadStatus{
				Offload: OffloadOn, DeviceCount: 1, HardwarePercent: &percent,
				Devices: []Device{{Name: "0000:03:00.0", NUMA: -1, Mode: "switchdev", VFs: VFCount{Total: 1, Free: 1}}},
				Traffic: []PodTraffic{{Pod: "a/b", Port: "eth4", Outside: []OutsideHardware{{Reason: "refused"}}}},
			},
		},
		&OffloadPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: Version, Kind: "OffloadPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: OffloadPolicySpec{
				NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				PFSelector:   PFSelector{Vendors: []string{"15b3"}}, NumVFs: 8, HWTCOffload: &on, ReservedVFs: 1,
			},
		},
	} {
		u, err := Encode(object)
		if err != nil {
			t.Fatal(err)
		}
		var back any
		if u.GetKind() == "NodeOffload" {
			back, err = Decode[NodeOffload](u)
		} else {
			back, err = Decode[OffloadPolicy](u)
		}
		if diff := cmp.Diff(object, back); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	u, err := Encode(&OffloadPolicy{TypeMeta: metav1.TypeMeta{Kind: "OffloadPolicy"}})
	if err != nil {
		t.Fatal(err)
	}
	u.Object["spec"] = "nothing"
	if _, err := Decode[OffloadPolicy](u); err == nil {
		t.Error("a spec that is no object was read")
	}
}
