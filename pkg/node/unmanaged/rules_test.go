package unmanaged

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// TestUdevRule_MatchesRepresentorsOnly: wires and PFs stay with the node's network manager.
func TestUdevRule_MatchesRepresentorsOnly(t *testing.T) {
	rules, err := files.ReadFile("files/85-ovn-offload.rules")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ATTR\{phys_port_name\}=="([^"]+)"`).FindSubmatch(rules)
	if found == nil {
		t.Fatal("no rule about phys_port_name")
	}
	patterns := strings.Split(string(found[1]), "|")
	for _, name := range []string{"p0", "p1s2", "pf0", "c1pf0", "pf0vf0", "pf1vf127", "c1pf0vf3", "pf0sf88", "c2pf1sf4", "eth0", ""} {
		f, ok := vf.ParsePortName(name)
		want := ok && (f.Flavour == netdev.FlavourVF || f.Flavour == netdev.FlavourSF)
		got := slices.ContainsFunc(patterns, func(p string) bool { m, err := path.Match(p, name); return m && err == nil })
		if got != want {
			t.Errorf("port name %q: %t, want %t", name, got, want)
		}
	}
}
