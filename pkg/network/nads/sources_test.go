package nads

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestSources_AreThoseOfANamespaceAndOfTheCluster: an event of a Namespace is compared with no others, and with what the objects
// say now.
func TestSources_AreThoseOfANamespaceAndOfTheCluster(t *testing.T) {
	n, object := newCluster(t).nads, func(text string) *unstructured.Unstructured {
		t.Helper()
		u := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	want := func(namespace, want string) {
		t.Helper()
		var got []string
		for _, source := range n.selecting(namespace) {
			text := source.Owner.Name
			if source.Selector != nil {
				text += "(" + source.Selector.String() + ")"
			}
			got = append(got, text)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("namespace %s is compared with %v, want %s", namespace, got, want)
		}
	}
	first, other := object(cudn("wide", "{matchLabels: {team: x}}", layer2)), object(cudn("wide", "{matchLabels: {team: z}}", layer2))
	n.sourceChanged(nil, first)
	n.sourceChanged(nil, object(udn("red", "a", layer2)))
	n.sourceChanged(nil, object(udn("blue", "b", layer2)))
	want("red", "a wide(team=x)")
	want("blue", "b wide(team=x)")
	n.sourceChanged(first, other)
	n.sourceChanged(object(udn("red", "a", layer2)), nil)
	want("red", "wide(team=z)")
	n.sourceChanged(other, nil)
	want("red", "")
	want("blue", "b")
	if len(n.sources) != 1 {
		t.Errorf("namespaces without objects are kept: %v", n.sources)
	}
}

// TestNamespaceChanged_ItsLabelsCount: an event that leaves the labels costs the same with any number of objects.
func TestNamespaceChanged_ItsLabelsCount(t *testing.T) {
	n, red := newCluster(t).nads, &unstructured.Unstructured{}
	red.SetName("red")
	red.SetLabels(map[string]string{"team": "x"})
	blue := red.DeepCopy()
	blue.SetLabels(map[string]string{"team": "y"})
	same := func() float64 { return testing.AllocsPerRun(10, func() { n.namespaceChanged(red, red) }) }
	alone := same()
	for i := range 1000 {
		object := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal([]byte(cudn(fmt.Sprint("wide-", i), "{matchLabels: {team: x}}", layer2)), &object.Object); err != nil {
			t.Fatal(err)
		}
		n.sourceChanged(nil, object)
	}
	if among := same(); among > alone+1 {
		t.Errorf("%v allocations with 1,000 objects, %v without", among, alone)
	}
	if other := testing.AllocsPerRun(1, func() { n.namespaceChanged(red, blue) }); other < 1000 {
		t.Errorf("other labels are compared with objects in %v allocations", other)
	}
}
