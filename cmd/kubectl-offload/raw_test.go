package main

import (
	"slices"
	"testing"
)

// TestRaw_AsksAnyMember: the pod of a clustered database that the plugin finds may be one that does not lead. What a user
// writes comes after the plugin's option, so --leader-only is still possible.
func TestRaw_AsksAnyMember(t *testing.T) {
	for verb, want := range map[string][]string{
		"nb":  {"ovn-nbctl", "--no-leader-only", "--leader-only", "show"},
		"sb":  {"ovn-sbctl", "--no-leader-only", "--leader-only", "show"},
		"ovs": {"show"},
	} {
		at := slices.IndexFunc(rawVerbs(), func(r raw) bool { return r.verb == verb })
		if _, got := rawVerbs()[at].run([]string{"--leader-only", "show"}); !slices.Equal(got, want) {
			t.Errorf("%s: runs %q, want %q", verb, got, want)
		}
	}
}
