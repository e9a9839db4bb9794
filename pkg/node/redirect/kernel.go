package redirect

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
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

// readKernel reads the table by netlink. Each pass of the gateway looks at it, and the program nft, which knftables runs
// for each set and chain, costs more than the rest of a pass. A table that does not exist has no chains.
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
	for _, chain := range chains {
		if chain.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(chain.Table, chain)
		if err != nil {
			return content{}, err
		}
		have.rules[chain.Name] = len(rules)
	}
	if len(have.rules) == 0 {
		return have, nil
	}
	sets, err := conn.GetSets(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	if err != nil {
		return content{}, err
	}
	for _, set := range sets {
		elements, err := conn.GetSetElements(set)
		if err != nil {
			return content{}, err
		}
		for _, e := range elements {
			key, value, err := elementWords(e.Key, e.Val)
			if err != nil {
				return content{}, fmt.Errorf("set %s: %w", set.Name, err)
			}
			have.add(set.Name, key, value)
		}
	}
	return have, nil
}

// elementWords are the parts of an element's key and value, as nft prints them. A key is an address, or protocol and
// port with or without an address before them; a value is an address and a port. The kernel has all of them one after
// another, each in whole words of four bytes (nft_set_pipapo and NFT_REG32 of the kernel's nf_tables.h).
func elementWords(key, value []byte) (keys, values []string, err error) {
	const word = 4
	address := key
	if len(value) > 0 {
		if len(key) < 2*word || len(value) < 2*word {
			return nil, nil, fmt.Errorf("an element of %d and %d bytes", len(key), len(value))
		}
		protocol, ok := protocolNames()[key[len(key)-2*word]]
		if !ok {
			protocol = fmt.Sprint(key[len(key)-2*word])
		}
		address, keys = key[:len(key)-2*word], []string{protocol, portOf(key)}
		to, ok := netip.AddrFromSlice(value[:len(value)-word])
		if !ok {
			return nil, nil, fmt.Errorf("an element's value of %d bytes", len(value))
		}
		values = []string{to.String(), portOf(value)}
	}
	if at, ok := netip.AddrFromSlice(address); ok {
		return slices.Insert(keys, 0, at.String()), values, nil
	}
	if len(address) > 0 || len(keys) == 0 {
		return nil, nil, fmt.Errorf("an element's key of %d bytes", len(key))
	}
	return keys, values, nil
}

// portOf is the port in the last word of a key or value.
func portOf(b []byte) string { return fmt.Sprint(binary.BigEndian.Uint16(b[len(b)-4:])) }

func protocolNames() map[byte]string {
	return map[byte]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_SCTP: "sctp"}
}
