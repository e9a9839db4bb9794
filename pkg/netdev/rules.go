package netdev

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// DeleteRules removes a link's ingress and egress rules of TC, with the qdisc that has them. It is fine if there are none.
func (n *NS) DeleteRules(link string) error { return n.deleteRules(link, "clsact", "ingress") }

// deleteRules deletes the qdiscs of these kinds.
func (n *NS) deleteRules(link string, kinds ...string) error {
	l, err := find(n, link)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := n.handle.QdiscList(l)
	if err != nil {
		return fmt.Errorf("listing qdiscs of %s: %w", link, err)
	}
	for _, q := range list {
		if !slices.Contains(kinds, q.Type()) {
			continue
		}
		if err := n.handle.QdiscDel(q); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("deleting the rules of TC of %s: %w", link, err)
		}
	}
	return nil
}
