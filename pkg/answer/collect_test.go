package answer

import (
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestNodesToCollect_HasTheTroubledNodesOfMany, and leaves nothing out of few.
func TestNodesToCollect_HasTheTroubledNodesOfMany(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/faults.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := cluster(t, archive.Files[0].Data)
	for most, want := range map[int][]string{1: {"worker-2"}, 2: nil} {
		if got, err := NodesToCollect(s, most); err != nil || !slices.Equal(got, want) {
			t.Errorf("at most %d: %v, %v, want %v", most, got, err, want)
		}
	}
	s = cluster(t, []byte(`
apiVersion: v1
kind: Node
metadata: {name: a}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: z}
status: {conditions: [{type: Ready, status: "False", message: "no network"}]}
`))
	if got, err := NodesToCollect(s, 1); err != nil || !slices.Equal(got, []string{"z"}) {
		t.Errorf("%v, %v, want the node that is not ready", got, err)
	}
}
