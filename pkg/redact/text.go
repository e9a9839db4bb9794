package redact

import (
	"net/netip"
	"regexp"
	"strings"
)

// The parts of a text that may be an address or a name: a MAC, an address of IPv6 or of IPv4 with what may be its mask, a
// hexadecimal number, and a name.
var (
	part  = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b|(?:[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){2,7}|::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?)(?:\.\d+){0,3}(?:/[0-9a-f:]+)?|\b\d{1,3}(?:\.\d{1,3}){3}\b(?:/[0-9.]+)?|\b0x[0-9a-f]{6,32}\b|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?`) //nolint:gochecknoglobals // constant
	token = regexp.MustCompile(`(?i)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?`)                                                                                                                                                                                                                     //nolint:gochecknoglobals // constant
	mac   = regexp.MustCompile(`(?i)^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$`)                                                                                                                                                                                                                     //nolint:gochecknoglobals // constant
)

func isSeparator(r rune) bool { return r == '-' || r == '.' }

// serial matches the serial numbers of a NIC and of its board, as "devlink dev info" prints them, also as JSON.
var serial = regexp.MustCompile(`(serial_number"?:?[ \t]*"?)([^\s",]+)`) //nolint:gochecknoglobals // constant

// Text replaces what is in a text.
func (r *Redactor) Text(text string) string {
	if name, ok := r.names[text]; ok {
		return name // images have more than a name
	}
	text = serial.ReplaceAllStringFunc(text, func(found string) string {
		at := serial.FindStringSubmatchIndex(found)
		return found[:at[4]] + r.pseudonym("serial", found[at[4]:])
	})
	var out strings.Builder
	end := 0
	for _, at := range part.FindAllStringIndex(text, -1) {
		out.WriteString(text[end:at[0]])
		end = at[1]
		isReference := at[0] > 0 && isOfReference(text[at[0]-1]) || end < len(text) && isOfReference(text[end])
		out.WriteString(r.part(text[at[0]:end], isReference))
	}
	out.WriteString(text[end:])
	return out.String()
}

// isOfReference says whether a character is between the parts of the names of objects, and of OVN's ports.
func isOfReference(c byte) bool { return c == '/' || c == '_' }

// part replaces one part of a text. isReference: it is next to a part of a name of an object.
func (r *Redactor) part(text string, isReference bool) string {
	lower := strings.ToLower(text)
	switch {
	case mac.MatchString(text):
		return r.mac(text)
	case strings.HasPrefix(lower, "0x"):
		return "0x" + r.hexadecimal(lower[2:])
	}
	address, mask, hasMask := strings.Cut(text, "/")
	tail := address[len(strings.TrimRight(address, ":")):]
	if a, err := netip.ParseAddr(address); err == nil {
		return r.masked(a, mask, hasMask)
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(address, tail)); err == nil && tail != "" && !hasMask { // "192.0.2.7:" of a sentence
		return r.address(a).String() + tail
	}
	if first, rest, ok := strings.Cut(text, ":"); ok { // a time, an address of PCI, or something before a MAC
		return r.name(first, isReference) + ":" + r.Text(rest)
	}
	return r.name(text, isReference)
}

func (r *Redactor) masked(a netip.Addr, mask string, hasMask bool) string {
	if !hasMask {
		return r.address(a).String()
	}
	bits := maskBits(mask)
	if bits < 0 { // a name follows, or a port
		return r.address(a).String() + "/" + r.Text(mask)
	}
	return r.network(a, bits).String() + "/" + mask
}

// name replaces the names within a word: stor-NODE is the port of a node.
func (r *Redactor) name(word string, isReference bool) string {
	if to, ok := r.names[word]; ok && (isReference || !r.isWord(word)) {
		return to
	}
	bounds := []int{0}
	for i, c := range word {
		if isSeparator(c) {
			bounds = append(bounds, i, i+1)
		}
	}
	bounds = append(bounds, len(word))
	var out strings.Builder
	for i := 0; i < len(bounds)-1; {
		next := i + 1
		to := word[bounds[i]:bounds[next]]
		for j := len(bounds) - 1; i%2 == 0 && j > i; j-- {
			if known, ok := r.names[word[bounds[i]:bounds[j]]]; ok && !r.isWord(word[bounds[i]:bounds[j]]) {
				to, next = known, j
				break
			}
		}
		out.WriteString(to)
		i = next
	}
	return out.String()
}

// isWord says whether a name may be a word of a sentence.
func (r *Redactor) isWord(name string) bool {
	return r.words[name] && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == ""
}
