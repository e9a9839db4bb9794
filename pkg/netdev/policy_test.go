package netdev_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestAddPolicyRule_AddsRuleOnce: of each family.
func TestAddPolicyRule_AddsRuleOnce(t *testing.T) {
	path := netdevtest.NewNS(t)
	ns, err := netdev.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	for _, from := range []string{"10.9.1.7/32", "fd00::7/128"} {
		for range 2 {
			if err := ns.AddPolicyRule(netdev.PolicyRule{From: netip.MustParsePrefix(from), Table: 105, Priority: 1000}); err != nil {
				t.Fatal(err)
			}
		}
	}
	handle := netdevtest.Handle(t, path)
	for family, from := range map[int]string{unix.AF_INET: "10.9.1.7/32", unix.AF_INET6: "fd00::7/128"} {
		rules, err := handle.RuleList(family)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, r := range rules {
			if r.Table == 105 && r.Priority == 1000 && r.Src.String() == from {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d rules from %s among %v", found, from, rules)
		}
	}
}
