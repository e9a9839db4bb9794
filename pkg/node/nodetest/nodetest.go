// Package nodetest has what the tests of a node's features share.
package nodetest

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Must ends a test that has an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal compares texts line by line.
func Equal(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Prefixes reads subnets.
func Prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// Network is the default network with these subnets.
func Network(subnets ...string) (n contract.Network) {
	for _, prefix := range Prefixes(subnets...) {
		n.Subnets = append(n.Subnets, contract.Subnet{Prefix: prefix})
	}
	return n
}
