package ovn

import (
	"net/netip"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func prefixStrings(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = prefix.String()
	}
	return out
}

// portAddress is OVN's notation for what a port answers to: "MAC IP IP6".
func portAddress(mac contract.MAC, addrs []netip.Prefix) string {
	var b strings.Builder
	b.WriteString(mac.String())
	for _, addr := range addrs {
		b.WriteByte(' ')
		b.WriteString(addr.Addr().String())
	}
	return b.String()
}
