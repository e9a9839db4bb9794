package ovn

import (
	"net/netip"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// hostAddress is the n-th address of a subnet, counted from its network address.
func hostAddress(subnet netip.Prefix, n uint32) netip.Addr {
	b := subnet.Masked().Addr().AsSlice()
	for i := len(b) - 1; i >= 0 && n > 0; i-- {
		n += uint32(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// hostPrefix is hostAddress with the subnet's length.
func hostPrefix(subnet netip.Prefix, n uint32) netip.Prefix {
	return netip.PrefixFrom(hostAddress(subnet, n), subnet.Bits())
}

// sameFamily is the first of prefixes in the family of addr.
func sameFamily(prefixes []netip.Prefix, addr netip.Addr) (netip.Prefix, bool) {
	for _, prefix := range prefixes {
		if prefix.Addr().Is4() == addr.Is4() {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

func prefixStrings(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = prefix.String()
	}
	return out
}

// portAddress is OVN's notation for what a port answers to: "MAC IP IP6".
func portAddress(mac kube.MAC, addrs []netip.Prefix) string {
	var b strings.Builder
	b.WriteString(mac.String())
	for _, addr := range addrs {
		b.WriteByte(' ')
		b.WriteString(addr.Addr().String())
	}
	return b.String()
}
