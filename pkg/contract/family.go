package contract

import "net/netip"

// Family is an address family: 4 or 6.
type Family int

// The address families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf is the family of addr. An IPv4 address in the form of IPv6 counts as IPv6.
func FamilyOf(addr netip.Addr) Family {
	if addr.Is4() {
		return IPv4
	}
	return IPv6
}

// String is "IPv4" or "IPv6", as in a Service's ipFamilies.
func (f Family) String() string {
	if f == IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// Has reports whether addr is of the family.
func (f Family) Has(addr netip.Addr) bool { return FamilyOf(addr) == f }

// Pick is the first of prefixes that is of the family.
func (f Family) Pick(prefixes []netip.Prefix) (netip.Prefix, bool) {
	for _, prefix := range prefixes {
		if f.Has(prefix.Addr()) {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}
