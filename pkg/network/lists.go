package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// What the lists of one NAD may have; docs/limits.md says what happens beyond that. All networks wait while a NAD is taken
// in, and the allocator looks at its lists for each pod.
const (
	// MaxSubnets is for subnets.
	MaxSubnets = 400
	// MaxParts is for each other list of subnets or addresses. OVN4NFV's excludeIps become as many.
	MaxParts = 256
	// MaxJoinSubnets is for joinSubnet, with one of each address family.
	MaxJoinSubnets = 2
	// MaxDNS is for each list of dns, and maxDNSText for the bytes of an element.
	MaxDNS     = 32
	maxDNSText = 253
	// MaxFormer is for each of these of a network that has an id: it may be older than the limits.
	MaxFormer = 2500
	// MaxNamespaces is for the namespaces that may use the network by the annotation of its NAD.
	MaxNamespaces = 256
)

// list is a list of a NAD, with commas between its elements.
type list struct {
	// key is that of the netconf, or an annotation.
	key, text string
	most      int
}

// lists are those of a NAD whose elements are in one text.
func (c netconf) lists(gateway string) []list {
	return []list{
		{"subnets", c.Subnets, MaxSubnets}, {"excludeSubnets", c.ExcludeSubnets, MaxParts}, {"reservedSubnets", c.ReservedSubnets, MaxParts},
		{"infrastructureSubnets", c.InfraSubnets, MaxParts}, {"defaultGatewayIPs", c.DefaultGateways, MaxParts},
		{"joinSubnet", c.JoinSubnet, MaxJoinSubnets}, {"annotation " + contract.GatewayKey, gateway, MaxParts},
	}
}

// checkLengths says which list of a NAD is too long, before anything looks at pairs of elements.
func checkLengths(c netconf, annotations map[string]string) error {
	former := 0
	if annotations[contract.NetworkIDKey] != "" {
		former = MaxFormer
	}
	for _, l := range c.lists(annotations[contract.GatewayKey]) {
		if n, most := elements(l.text), max(l.most, former); n > most {
			return contract.LimitError(fmt.Sprintf("%s has %d elements, and may have %d", l.key, n, most))
		}
	}
	for key, list := range map[string][]string{"nameservers": c.DNS.Nameservers, "search": c.DNS.Search, "options": c.DNS.Options} {
		if n, most := len(list), max(MaxDNS, former); n > most {
			return contract.LimitError(fmt.Sprintf("dns.%s has %d elements, and may have %d", key, n, most))
		}
		most := max(maxDNSText, former)
		if slices.ContainsFunc(append(list, c.DNS.Domain), func(text string) bool { return len(text) > most }) {
			return contract.LimitError(fmt.Sprintf("dns: a text of %s, or domain, has more than %d bytes", key, most))
		}
	}
	return nil
}

// elements is how many a list has.
func elements(list string) (n int) {
	for entry := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(entry) != "" {
			n++
		}
	}
	return n
}

// namespacesOf are those that an annotation lists: of too many, none.
func namespacesOf(annotation string) (map[string]bool, error) {
	if n := elements(annotation); n > MaxNamespaces {
		return nil, fmt.Errorf(`annotation %s lists %d namespaces, and may list %d: it lets none use the network. List "*" for all`, contract.NamespacesKey, n, MaxNamespaces)
	}
	namespaces := map[string]bool{}
	for _, namespace := range split(annotation) {
		namespaces[namespace] = true
	}
	return namespaces, nil
}
