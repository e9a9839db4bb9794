package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// PolicyRule has packets from an address routed by a table of their own.
type PolicyRule struct {
	From     netip.Prefix
	Table    int
	Priority int // above 0: without one, the kernel would make another rule each time
}

// AddPolicyRule adds a rule; it is fine if the rule is there already.
func (n *NS) AddPolicyRule(r PolicyRule) error {
	rule := netlink.NewRule()
	rule.Src, rule.Table, rule.Priority = toIPNet(r.From), r.Table, r.Priority
	rule.Family = unix.AF_INET
	if r.From.Addr().Is6() {
		rule.Family = unix.AF_INET6
	}
	if err := n.handle.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("adding the rule from %s to table %d: %w", r.From, r.Table, err)
	}
	return nil
}
