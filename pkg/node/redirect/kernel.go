package redirect

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
)

// content is what Keep compares of a table.
type content struct {
	rules    map[string]int // of each chain
	elements []string       // "SET KEY VALUE", with spaces between the parts of a key and of a value
}

func (c *content) add(set string, key, value []string) {
	c.elements = append(c.elements, strings.Join(slices.Concat([]string{set}, key, value), " "))
}

func (c content) equal(other content) bool {
	return maps.Equal(c.rules, other.rules) && slices.Equal(slices.Sorted(slices.Values(c.elements)), slices.Sorted(slices.Values(other.elements)))
}

// targets are those of its maps.
func (c content) targets() targets {
	all := targets{}
	var own []netip.Addr
	for _, e := range c.elements {
		if words := strings.Fields(e); strings.HasPrefix(e, ownSet) && len(words) == 2 {
			own = append(own, addrsOf(words[1])...)
		}
	}
	for _, e := range c.elements {
		words := strings.Fields(e)
		at := own
		switch {
		case strings.HasPrefix(e, nodePortMap) && len(words) == 5:
		case strings.HasPrefix(e, externalMap) && len(words) == 6:
			at, words = addrsOf(words[1]), words[1:]
		default:
			continue
		}
		target, err := netip.ParseAddrPort(net.JoinHostPort(words[3], words[4]))
		port, portErr := strconv.ParseUint(words[2], 10, 16)
		for _, addr := range at {
			if err == nil && portErr == nil && contract.FamilyOf(addr).Has(target.Addr()) {
				all[place{flows.Protocol(words[1]), netip.AddrPortFrom(addr, uint16(port))}] = target
			}
		}
	}
	return all
}

// addrsOf is one address, or none if the text is no address.
func addrsOf(text string) []netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	return []netip.Addr{addr}
}

// readKernel reads the table by netlink: each pass of the gateway looks at it, and knftables runs nft for each set and chain.
// A table that does not exist has no chains.
func readKernel() (content, error) {
	conn, err := nftables.New()
	if err != nil {
		return content{}, err
	}
	have := content{rules: map[string]int{}}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return content{}, err
	}
	var table *nftables.Table
	for _, chain := range chains {
		if chain.Table.Name != tableName {
			continue
		}
		table = chain.Table
		rules, err := conn.GetRules(table, chain)
		if err != nil {
			return content{}, err
		}
		have.rules[chain.Name] = len(rules)
	}
	if table == nil {
		return have, nil
	}
	sets, err := conn.GetSets(table)
	if err != nil {
		return content{}, err
	}
	for _, set := range sets {
		elements, err := conn.GetSetElements(set)
		if err != nil {
			return content{}, err
		}
		for _, e := range elements {
			key, value := elementWords(e.Key, e.Val)
			if set.Name == gatewaySet || set.Name == uplinkSet {
				key = []string{strconv.Quote(unix.ByteSliceToString(e.Key))}
			}
			have.add(set.Name, key, value)
		}
	}
	return have, nil
}

// elementWords are the parts of an element's key and value, as nft prints them. A key is an address, or protocol and
// port with or without an address before them; a value is an address and a port. The kernel has the parts one after
// another, each padded to whole registers of four bytes (NFT_REG32_SIZE of linux/netfilter/nf_tables.h). An element of
// another form is none of ours, and like none of ours.
func elementWords(key, value []byte) (keys, values []string) {
	const register = 4
	address := key
	if len(value) > 0 {
		if len(key) < 2*register || len(value) < 2*register {
			return []string{fmt.Sprintf("%x", key)}, []string{fmt.Sprintf("%x", value)}
		}
		address = key[:len(key)-2*register]
		keys = []string{protocolName(key[len(address)]), portOf(key)}
		values = []string{addressOf(value[:len(value)-register]), portOf(value)}
	}
	if len(address) > 0 {
		keys = slices.Insert(keys, 0, addressOf(address))
	}
	return keys, values
}

// addressOf is an address, or bytes that are none.
func addressOf(b []byte) string {
	if addr, ok := netip.AddrFromSlice(b); ok {
		return addr.String()
	}
	return fmt.Sprintf("%x", b)
}

// portOf is the port in the last register of a key or value.
func portOf(b []byte) string { return fmt.Sprint(binary.BigEndian.Uint16(b[len(b)-4:])) }

func protocolName(number byte) string {
	switch number {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_SCTP:
		return "sctp"
	}
	return fmt.Sprint(number)
}
