package render

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the expected NADs again")

// TestNAD_OfEachCase reads testdata/*.txtar: an object, and the NADs that it stands for in the namespaces red and blue, or
// in its own.
func TestNAD_OfEachCase(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := rendered(t, string(archive.Files[0].Data))
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "nads.yaml", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) < 2 {
				t.Fatal("no nads.yaml")
			}
			if diff := cmp.Diff(string(bytes.TrimSpace(archive.Files[1].Data)), strings.TrimSpace(got)); diff != "" {
				t.Errorf("NADs (-want +got):\n%s", diff)
			}
		})
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := sigsyaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func rendered(t *testing.T, text string) string {
	t.Helper()
	source, err := Parse(object(t, text))
	if err != nil {
		return fmt.Sprintf("# %v\n", err)
	}
	namespaces := []string{source.Owner.Namespace}
	if source.Refused != "" {
		namespaces = nil
	} else if source.Selector != nil {
		namespaces = nil
		for _, name := range []string{"red", "blue"} {
			if source.Selector.Matches(labels.Set{"color": name}) {
				namespaces = append(namespaces, name)
			}
		}
	}
	out := fmt.Sprintf("# primary: %v, transport: %q, refused: %q\n", source.IsPrimary, source.Transport, source.Refused)
	for _, namespace := range namespaces {
		nad, err := source.NAD(namespace)
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := sigsyaml.Marshal(nad.Object)
		if err != nil {
			t.Fatal(err)
		}
		out += "---\n" + string(yaml)
	}
	return out
}

// TestParse_NeverChangesItsObject: the object is an informer's.
func TestParse_NeverChangesItsObject(t *testing.T) {
	text := "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {namespace: ns, name: net, labels: {a: b}, annotations: {c: d}}\n" +
		"spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}\n"
	before, after := object(t, text), object(t, text)
	source, err := Parse(after)
	if err != nil {
		t.Fatal(err)
	}
	nad, err := source.NAD("ns")
	if err != nil {
		t.Fatal(err)
	}
	nad.SetLabels(map[string]string{"x": "y"})
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("object (-before +after):\n%s", diff)
	}
}
