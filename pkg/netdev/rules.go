package netdev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// DeleteRules removes a link's ingress and egress rules of TC, with the qdisc that has them. It is fine if there are none.
func (n *NS) DeleteRules(link string) error {
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
		if q.Type() != "clsact" && q.Type() != "ingress" {
			continue
		}
		if err := n.handle.QdiscDel(q); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("deleting the rules of TC of %s: %w", link, err)
		}
	}
	return nil
}
