package sysdump

import (
	"slices"
	"testing"
)

func TestNodes_NamesThoseThatAreLeftOut(t *testing.T) {
	nodes, left := Nodes([]string{"w1", "w2"}, []string{"w2"})
	if !slices.Equal(nodes, []string{"w2"}) || !slices.Equal(left, []string{"node/w1: not in this archive"}) {
		t.Errorf("%q, %q", nodes, left)
	}
	if nodes, left = Nodes([]string{"w1", "w2"}, nil); len(nodes) != 2 || len(left) != 0 {
		t.Errorf("%q, %q", nodes, left)
	}
}
