package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Sysctls of links.
const (
	RPFilter    = "net/ipv4/conf/%/rp_filter"
	ARPIgnore   = "net/ipv4/conf/%/arp_ignore"
	Forwarding  = "net/ipv4/conf/%/forwarding"
	DisableIPv6 = "net/ipv6/conf/%/disable_ipv6"
	AcceptRA    = "net/ipv6/conf/%/accept_ra"
	Autoconf    = "net/ipv6/conf/%/autoconf"
	// DADTransmits is the number of probes of duplicate address detection.
	DADTransmits = "net/ipv6/conf/%/dad_transmits"
)

// Origins and tables of routes.
const (
	ProtocolKernel = 2 // RTPROT_KERNEL: the route to an address's own prefix
	protocolBoot   = 3 // RTPROT_BOOT: set without a protocol
	protocolStatic = 4
	ProtocolRA     = 9 // a router's advertisement
	protocolDHCP   = 16
	ProtocolOurs   = netdev.ProtocolOurs
	TableMain      = 254
)

// VF carries the management port in place of an internal port
// of br-int, so that the node's traffic with pods is the NIC's. With a DPU each
// side has one of its ends.
type VF struct {
	// Device becomes ManagementInterface; "" on a DPU.
	Device string
	// Representor is the port of br-int; "" on a host with a DPU.
	Representor string
	// Claim is what a host's Node says to the DPU (contract.ManagementPortKey).
	Claim string
}

// maxLinkName is the kernel's limit.
const maxLinkName = 15

// BridgeName is that of the bridge of a NIC; a long one ends with a hash.
func BridgeName(nic string) string {
	name := "br" + nic
	if len(name) <= maxLinkName {
		return name
	}
	sum := sha256.Sum256([]byte(nic))
	hash := hex.EncodeToString(sum[:3])
	return name[:maxLinkName-len(hash)] + hash
}

// DefaultLink is that of the default route, "" if there is none. It prefers IPv4, then the lower metric.
func (s State) DefaultLink() string {
	var best *netdev.Route
	for i, r := range s.Routes {
		if r.Dest.Bits() != 0 || r.Table != TableMain || r.Link == "" {
			continue
		}
		if best == nil || before(r, *best) {
			best = &s.Routes[i]
		}
	}
	if best == nil {
		return ""
	}
	return best.Link
}

func before(a, b netdev.Route) bool {
	families := cmp.Compare(contract.FamilyOf(a.Dest.Addr()), contract.FamilyOf(b.Dest.Addr()))
	return cmp.Or(families, cmp.Compare(a.Metric, b.Metric)) < 0
}

// LinkOf is the link that has one of the addresses, "" if none has.
func (s State) LinkOf(addrs ...netip.Addr) string {
	for name, prefixes := range s.Addrs {
		for _, p := range prefixes {
			if slices.Contains(addrs, p.Addr()) {
				return name
			}
		}
	}
	return ""
}

// HostCIDRs are all addresses of the node, without that in its pod subnet and without masquerade addresses.
func (s State) HostCIDRs() []netip.Prefix {
	set := map[netip.Prefix]bool{}
	for _, byLink := range []map[string][]netip.Prefix{s.Addrs, s.LinkLocal} {
		for name, addrs := range byLink {
			for _, addr := range addrs {
				if name != ManagementInterface {
					set[addr] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(set), netip.Prefix.Compare)
}

// AddrsOf are the addresses of prefixes.
func AddrsOf(prefixes []netip.Prefix) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range prefixes {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// BridgedNICs are the NICs among the ports of bridges, sorted; ports are those of Open vSwitch, by name, with their
// bridge. A device of Open vSwitch itself is no NIC, and neither are the ports of the integration bridge.
func BridgedNICs(links map[string]netdev.Link, ports map[string]string) []string {
	var nics []string
	for port, bridge := range ports {
		link, exists := links[port]
		// The userspace datapath makes its own devices as TAPs, whose kind the kernel and netlink libraries call differently.
		internal := port == bridge || slices.Contains([]string{"openvswitch", "tun", "tuntap"}, link.Type)
		if exists && bridge != contract.IntegrationBridge && !internal {
			nics = append(nics, port)
		}
	}
	slices.Sort(nics)
	return nics
}

// PrepareLink sets what differs, and the link up.
func PrepareLink(s State, name string, want netdev.Settings) []Step {
	link := s.Links[name]
	if want.MTU == link.MTU {
		want.MTU = 0
	}
	if slices.Equal(want.MAC, link.MAC) {
		want.MAC = nil
	}
	if !link.Up {
		want.State = netdev.Up
	}
	if want.MTU == 0 && want.MAC == nil && want.State == netdev.Keep {
		return nil
	}
	return []Step{SetLink{Name: name, Settings: want}}
}

// Sysctls gives the steps for those keys of a link that differ.
func Sysctls(s State, link string, want [][2]string) []Step {
	var steps []Step
	for _, w := range want {
		key := SysctlKey(w[0], link)
		if have, exists := s.Sysctls[key]; exists && have != w[1] {
			steps = append(steps, SetSysctl{Key: key, Value: w[1]})
		}
	}
	return steps
}

// IsConfigured reports whether a route is of the host's configuration: a network service or an administrator has set
// the route, or the kernel by a router's advertisement. Routing daemons have protocols of their own, and withdraw
// their routes themselves.
func IsConfigured(r netdev.Route) bool {
	return slices.Contains([]int{0, protocolBoot, protocolStatic, ProtocolRA, protocolDHCP, ProtocolPermanent}, r.Protocol)
}

// SameRoute leaves out what the kernel adds to a route.
func SameRoute(a, b netdev.Route) bool {
	return a.Link == b.Link && a.NextHop == b.NextHop && slices.Equal(a.Others, b.Others) && SameKey(a, b)
}

// SameKey says that one route would replace the other.
func SameKey(a, b netdev.Route) bool {
	return a.Dest == b.Dest && a.Table == b.Table && a.Metric == b.Metric
}

// PlanRoutes gives the steps towards a link having these routes of ours and no others.
func PlanRoutes(s State, link string, want []netdev.Route) []Step {
	var steps []Step
	for _, w := range want {
		same := func(r netdev.Route) bool { return SameRoute(r, w) && r.Source == w.Source && r.MTU == w.MTU }
		if !slices.ContainsFunc(s.Routes, same) {
			steps = append(steps, AddRoute{Route: w})
		}
	}
	for _, r := range s.Routes {
		same := func(w netdev.Route) bool { return SameKey(r, w) }
		if r.Link == link && r.Protocol == ProtocolOurs && !slices.ContainsFunc(want, same) {
			steps = append(steps, DeleteRoute{Route: r})
		}
	}
	return steps
}

// Metric is what the kernel makes of a route that names none.
func Metric(dest netip.Addr) int {
	if contract.IPv6.Has(dest) {
		return 1024
	}
	return 0
}

// PrepareRepresentor sets a port of a bridge up for packets of any length up to mtu.
func PrepareRepresentor(s State, name string, mtu int) []Step {
	link := s.Links[name]
	if link.MTU == mtu && link.Up && link.NoARP {
		return nil
	}
	return []Step{SetLink{Name: name, Settings: netdev.Settings{MTU: mtu, NoLinkLocal: true, NoARP: true, State: netdev.Up}}}
}

// NotReady is an error that ends when something appears.
func NotReady(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, reconcile.ErrNotReady)...)
}
