package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
)

// Networks are the networks of a rule. Those of a NetworkPolicy are read when a
// builder asks for them: the event of an object with many costs no more than another.
type Networks struct {
	key  string
	read func() ([]netip.Prefix, error)
}

// Prefixes are the networks, sorted, without overlaps. Blocks that are wrong have
// none, and the error says what is wrong.
func (n *Networks) Prefixes() ([]netip.Prefix, error) {
	if n == nil {
		return nil, nil
	}
	return n.read()
}

// contains says that an address is in one of the networks; without Networks it is.
func (n *Networks) contains(addr netip.Addr) bool {
	if n == nil {
		return true
	}
	prefixes, _ := n.read()
	at, found := slices.BinarySearchFunc(prefixes, addr, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || at > 0 && prefixes[at-1].Contains(addr)
}

// newNetworks keeps blocks as they are; path is where in the object they are.
func newNetworks(path string, blocks []networkingv1.IPBlock) *Networks {
	var parts []string
	for _, block := range blocks {
		parts = append(parts, block.CIDR)
		parts = append(parts, block.Except...)
		parts = append(parts, "")
	}
	return &Networks{key: hash(parts...), read: sync.OnceValues(func() ([]netip.Prefix, error) { return readBlocks(path, blocks) })}
}

// listedNetworks are prefixes as an administrator wrote them.
func listedNetworks(prefixes []netip.Prefix) *Networks {
	var texts []string
	var all []span
	for _, prefix := range prefixes {
		texts = append(texts, prefix.String())
		all = append(all, spanOf(prefix))
	}
	left := prefixesOf(all, math.MaxInt)
	return &Networks{key: hash(texts...), read: func() ([]netip.Prefix, error) { return left, nil }}
}

func readBlocks(path string, blocks []networkingv1.IPBlock) ([]netip.Prefix, error) {
	var all []span
	var errs []error
	for _, block := range blocks {
		spans, err := readBlock(block)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
		all = append(all, spans...)
	}
	left := prefixesOf(all, MaxNetworks)
	if len(left) > MaxNetworks {
		errs = append(errs, fmt.Errorf("%s: %w: over %d networks are left: the rule allows nothing", path, ErrOverLimit, MaxNetworks))
		left = nil
	}
	return left, errors.Join(errs...)
}

// readBlock gives what is left of a block. An exception that cannot be read, or is
// of the other family, leaves nothing: else it would open what it closes.
func readBlock(block networkingv1.IPBlock) ([]span, error) {
	cidr, err := parseNetwork(block.CIDR)
	if err != nil {
		return nil, fmt.Errorf("ipBlock: %w", err)
	}
	var except []span
	for _, text := range block.Except {
		network, err := parseNetwork(text)
		if err != nil {
			return nil, fmt.Errorf("ipBlock.except: %w", err)
		}
		if network.Addr().BitLen() != cidr.Addr().BitLen() {
			return nil, fmt.Errorf("ipBlock.except: %s is not of the address family of %s", text, block.CIDR)
		}
		except = append(except, spanOf(network))
	}
	return without(spanOf(cidr), except), nil
}

// parseNetwork refuses IPv4 networks in the form of IPv6.
func parseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if err == nil && network.Addr().Is4In6() {
		err = fmt.Errorf("%s is an IPv4 network in the form of IPv6", text)
	}
	return network.Masked(), err
}

// span is the addresses from first to last, of one family.
type span struct{ first, last netip.Addr }

func spanOf(p netip.Prefix) span {
	bytes := p.Addr().As16()
	bit := len(bytes)*8 - p.Addr().BitLen() + p.Bits()
	for i := bit / 8; i < len(bytes); i++ {
		bytes[i] |= 0xff >> max(0, bit-i*8)
	}
	last := netip.AddrFrom16(bytes)
	if p.Addr().Is4() {
		last = last.Unmap()
	}
	return span{p.Masked().Addr(), last}
}

// without takes holes out of a span, in one sweep over the sorted holes.
func without(s span, holes []span) (left []span) {
	for _, hole := range merged(holes) {
		if hole.last.Less(s.first) || s.last.Less(hole.first) {
			continue
		}
		if s.first.Less(hole.first) {
			left = append(left, span{s.first, hole.first.Prev()})
		}
		if s.first = hole.last.Next(); !s.first.IsValid() || s.last.Less(s.first) {
			return left
		}
	}
	return append(left, s)
}

// merged sorts spans and joins those that overlap or follow each other.
func merged(spans []span) []span {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Or(a.first.Compare(b.first), a.last.Compare(b.last)) })
	var all []span
	for _, s := range spans {
		if len(all) > 0 && all[len(all)-1].first.BitLen() == s.first.BitLen() {
			before := &all[len(all)-1]
			if next := before.last.Next(); !next.IsValid() || !next.Less(s.first) {
				if before.last.Less(s.last) {
					before.last = s.last
				}
				continue
			}
		}
		all = append(all, s)
	}
	return all
}

// prefixesOf are the fewest prefixes that have the same addresses, sorted. It ends
// when they are more than most.
func prefixesOf(spans []span, most int) (all []netip.Prefix) {
	for _, s := range merged(spans) {
		for s.first.IsValid() && !s.last.Less(s.first) && len(all) <= most {
			bits := s.first.BitLen()
			for bits > 0 && fits(netip.PrefixFrom(s.first, bits-1), s.last) {
				bits--
			}
			prefix := netip.PrefixFrom(s.first, bits)
			all = append(all, prefix)
			s.first = spanOf(prefix).last.Next()
		}
	}
	return all
}

// fits says that a prefix begins at its address and does not end after last.
func fits(p netip.Prefix, last netip.Addr) bool {
	whole := spanOf(p)
	return whole.first == p.Addr() && !last.Less(whole.last)
}
