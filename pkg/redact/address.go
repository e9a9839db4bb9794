package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
)

// addresses have the key of an archive, and the pseudonyms of its addresses.
type addresses struct {
	key []byte
	mu  sync.Mutex
	// known are the pseudonyms that were made so far.
	known map[netip.Addr]netip.Addr
	// numbers are addresses as hexadecimal numbers, as rules of OpenFlow have them.
	numbers map[string]string
	octets  [256]byte
}

// digest is that of a text with the key.
func (r *addresses) digest(text string) []byte {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// The first octets of addresses that the product and the standards give a meaning: they stay as they are.
func isSpecial(first byte) bool { return first == 0 || first == 127 || first == 169 || first >= 224 }

// shuffle gives each other first octet one of them, each to one.
func (r *addresses) shuffle() {
	var free []byte
	for i := range r.octets {
		r.octets[i] = byte(i)
		if !isSpecial(byte(i)) {
			free = append(free, byte(i))
		}
	}
	random := r.digest("octets")
	for i := len(free) - 1; i > 0; i-- {
		if i%len(random) == 0 {
			random = r.digest(string(random))
		}
		j := int(random[i%len(random)]) % (i + 1)
		free[i], free[j] = free[j], free[i]
	}
	at := 0
	for i := range r.octets {
		if !isSpecial(byte(i)) {
			r.octets[i] = free[at]
			at++
		}
	}
}

// address gives the pseudonym of an address. Two addresses have as many leading bits in common as their pseudonyms; of IPv4,
// counted from the second octet on.
func (r *addresses) address(a netip.Addr) netip.Addr {
	if a = a.WithZone(""); a.Is4In6() {
		a = a.Unmap()
	}
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() && a.Is4() || a.Is4() && isSpecial(a.As4()[0]) {
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[a]; ok {
		return known
	}
	from := a.AsSlice()
	to := make([]byte, len(from))
	begin := 8
	switch {
	case a.Is4():
		to[0] = r.octets[from[0]]
	case a.IsMulticast(), a.IsLinkLocalUnicast(): // the rest is made of an address, or of a MAC
		copy(to[:2], from)
		begin = 16
	default:
		to[0] = 0xfd // of private networks
	}
	for bit := begin; bit < 8*len(from); bit++ {
		mask := byte(0x80) >> (bit % 8)
		prefix, _ := a.Prefix(bit) // there are so many bits
		to[bit/8] |= from[bit/8]&mask ^ r.digest(prefix.String())[0]&1*mask
	}
	mapped, _ := netip.AddrFromSlice(to) // it has the length of an address
	r.known[a] = mapped
	if a.Is4() {
		r.numbers[number(from)] = number(to)
	}
	return mapped
}

func number(octets []byte) string { return strings.TrimLeft(hex.EncodeToString(octets), "0") }

// network gives the pseudonym of an address with a length of its prefix after it: one without bits beyond the prefix has none then.
func (r *addresses) network(a netip.Addr, bits int) netip.Addr {
	mapped := r.address(a)
	p, err := a.Prefix(bits)
	if err != nil || p.Addr() != a || bits < 8 && !a.IsUnspecified() {
		return mapped
	}
	if q, err := mapped.Prefix(bits); err == nil {
		return q.Addr()
	}
	return mapped
}

// maskBits are the leading ones of a mask; -1: it is none.
func maskBits(mask string) int {
	if bits, err := strconv.Atoi(mask); err == nil {
		return bits
	}
	a, err := netip.ParseAddr(mask)
	if err != nil {
		return -1
	}
	bits := 0
	for _, b := range a.AsSlice() {
		for ; b&0x80 != 0; b <<= 1 {
			bits++
		}
	}
	return bits
}

// mac gives the pseudonym of a MAC. The network makes those of pods from their addresses.
func (r *addresses) mac(text string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	if err != nil || len(raw) != 6 {
		return text
	}
	isOurs, isNeighbors := raw[0] == 0x0a && raw[1] == 0x58, raw[0] == 0x33 && raw[1] == 0x33
	if raw[0]&1 != 0 && !isNeighbors || strings.Trim(text, "0:") == "" {
		return text // a group, or a mask
	}
	to := append([]byte{0x02}, r.digest("mac " + strings.ToLower(text))[:5]...)
	switch {
	case isOurs:
		last := r.address(netip.AddrFrom4([4]byte(raw[2:]))).As4()
		to = append([]byte{0x0a, 0x58}, last[:]...)
	case isNeighbors:
		to[0], to[1] = 0x33, 0x33
	}
	r.mu.Lock()
	r.numbers[number(raw)] = number(to)
	r.mu.Unlock()
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", to[0], to[1], to[2], to[3], to[4], to[5])
}

// hexadecimal replaces the addresses within a number, in which fields of OpenFlow may have bits beside them.
func (r *addresses) hexadecimal(digits string) string {
	padded := []byte(strings.Repeat("0", -len(digits)&7) + digits)
	for at := 0; at+8 <= len(padded); at += 2 {
		if end := at + 12; end <= len(padded) && string(padded[at:at+4]) == "0a58" {
			copy(padded[at:], strings.ReplaceAll(r.mac(colons(string(padded[at:end]))), ":", ""))
			at += 10
			continue
		}
		r.mu.Lock()
		to, ok := r.numbers[strings.TrimLeft(string(padded[at:at+8]), "0")]
		r.mu.Unlock()
		if ok && len(to) <= 8 {
			copy(padded[at:], strings.Repeat("0", 8-len(to))+to)
			at += 6
		}
	}
	return strings.TrimLeft(string(padded[:-len(digits)&7]), "0") + string(padded[-len(digits)&7:])
}

// colons are between the octets of a MAC.
func colons(digits string) string {
	var octets []string
	for i := 0; i < len(digits); i += 2 {
		octets = append(octets, digits[i:i+2])
	}
	return strings.Join(octets, ":")
}
