package vf

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// PortName says what a port of an eswitch leads to, by the eswitch's numbers: the
// uplink (p0), a physical function (c1pf0), a VF (pf0vf3) or a scalable function
// (pf0sf88). With the switch id it is unique on a node; by itself it is not.
type PortName struct {
	Flavour netdev.Flavour
	// External functions are another PCIe host's, which Controller numbers.
	External   bool
	Controller uint32
	// PF is the physical function's number, which need not be the last digit
	// of its PCI address.
	PF uint32
	// Number is that of the port, the VF or the SF.
	Number uint32
	// Lane is what follows the s of a split port plus one, or 0.
	Lane int
}

// ParsePortName reads phys_port_name as the kernel has written it since 4.20:
//
//	[l<card>]p<port>[s<lane>]   [c<controller>]pf<n>[vf<n>|sf<n>]
//
// Anything else is no name of ours, the bare numbers of old mlx5 drivers
// included, which other drivers use for ports.
func ParsePortName(name string) (PortName, bool) {
	s := scanner{rest: name}
	f := PortName{}
	if s.take("c") {
		f.External, f.Controller = true, s.number()
	}
	if s.take("pf") {
		f.Flavour, f.PF = netdev.FlavourPF, s.number()
		switch {
		case s.take("vf"):
			f.Flavour, f.Number = netdev.FlavourVF, s.number()
		case s.take("sf"):
			f.Flavour, f.Number = netdev.FlavourSF, s.number()
		}
		return f, s.done()
	}
	if s.take("l") {
		s.number() // a line card has no eswitch; its ports are uplinks all the same
	}
	if !f.External && s.take("p") {
		f.Flavour, f.Number = netdev.FlavourPhysical, s.number()
		if s.take("s") {
			f.Lane = int(s.number()) + 1
		}
		return f, s.done()
	}
	return PortName{}, false
}

// portNameOf is ParsePortName's answer as devlink gives it. Drivers too old
// to tell the controller leave that to the name.
func portNameOf(p netdev.DevlinkPort, name string) (PortName, bool) {
	if p.Controller == nil && p.Flavour != netdev.FlavourPhysical {
		if f, ok := ParsePortName(name); ok {
			return f, true
		}
	}
	f := PortName{Flavour: p.Flavour}
	if p.External != nil && *p.External {
		f.External = true
		if p.Controller != nil {
			f.Controller = *p.Controller
		}
	}
	switch p.Flavour {
	case netdev.FlavourPhysical:
		if named, ok := ParsePortName(name); ok {
			return named, true
		}
	case netdev.FlavourPF, netdev.FlavourVF, netdev.FlavourSF:
		if p.PF == nil || (p.Number == nil && p.Flavour != netdev.FlavourPF) {
			return PortName{}, false
		}
		f.PF = *p.PF
	default:
		return PortName{}, false
	}
	if p.Number != nil {
		f.Number = *p.Number
	}
	return f, true
}

func (f PortName) String() string {
	var b strings.Builder
	if f.External {
		fmt.Fprintf(&b, "c%d", f.Controller)
	}
	switch f.Flavour {
	case netdev.FlavourPhysical:
		fmt.Fprintf(&b, "p%d", f.Number)
		if f.Lane > 0 {
			fmt.Fprintf(&b, "s%d", f.Lane-1)
		}
	case netdev.FlavourPF:
		fmt.Fprintf(&b, "pf%d", f.PF)
	case netdev.FlavourVF:
		fmt.Fprintf(&b, "pf%dvf%d", f.PF, f.Number)
	case netdev.FlavourSF:
		fmt.Fprintf(&b, "pf%dsf%d", f.PF, f.Number)
	}
	return b.String()
}

// comparePortNames orders by host, this one first, then PF, kind and number.
func comparePortNames(a, b PortName) int {
	if a.External != b.External {
		if b.External {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.Controller, b.Controller),
		cmp.Compare(a.PF, b.PF), cmp.Compare(a.Flavour, b.Flavour), cmp.Compare(a.Number, b.Number))
}

// MarshalText writes the kernel's name.
func (f PortName) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the kernel's name.
func (f *PortName) UnmarshalText(text []byte) error {
	got, ok := ParsePortName(string(text))
	if !ok {
		return fmt.Errorf("%q is not a port name", text)
	}
	*f = got
	return nil
}

// scanner remembers that something was wrong, so that its user need not.
type scanner struct {
	rest string
	bad  bool
}

func (s *scanner) take(prefix string) bool {
	rest, ok := strings.CutPrefix(s.rest, prefix)
	// "p" must not take the beginning of "pf", nor "s" that of "sf".
	if ok && (rest == "" || rest[0] < '0' || rest[0] > '9') {
		return false
	}
	s.rest = rest
	return ok
}

// number takes digits as the kernel writes them, without leading zeros.
func (s *scanner) number() uint32 {
	end := strings.IndexFunc(s.rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s.rest)
	}
	digits := s.rest[:end]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != digits {
		s.bad = true
	}
	s.rest = s.rest[end:]
	return uint32(n)
}

func (s *scanner) done() bool { return !s.bad && s.rest == "" }
