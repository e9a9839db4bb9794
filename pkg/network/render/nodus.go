package render

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
)

// maxExcluded bounds the parts into which ranges of excluded addresses are divided.
const maxExcluded = 256

// virtual renders a Network of OVN4NFV.
func (s *Source) virtual() error {
	n, err := decode[opnfv.Network](s.Object)
	if err != nil {
		return err
	}
	s.conf.Topology = string(contract.Layer2)
	s.plan(n.Spec.Addresses)
	return nil
}

// provider renders a ProviderNetwork.
func (s *Source) provider() error {
	n, err := decode[opnfv.ProviderNetwork](s.Object)
	if err != nil {
		return err
	}
	s.conf.Topology, s.conf.PhysicalNetwork = string(contract.Localnet), n.PhysicalNetwork()
	s.plan(n.Spec.Addresses)
	if n.Spec.VLAN != nil {
		id, err := strconv.Atoi(n.Spec.VLAN.ID)
		if err != nil || id < 1 || id > 4094 {
			s.Refused = fmt.Sprintf("vlanId %q is not between 1 and 4094", n.Spec.VLAN.ID)
		}
		s.conf.VLAN = int32(id)
	}
	if _, _, err := n.Uplink(); err != nil {
		s.Refused = err.Error()
	}
	return nil
}

// plan renders the subnets. The gateways are never a pod's. Pods may be gateways: OVN4NFV checks
// no addresses.
func (s *Source) plan(a opnfv.Addresses) {
	s.conf.Role, s.conf.PortSecurity = string(contract.RoleSecondary), "mac"
	var subnets, excluded, gateways []string
	for _, subnet := range append(a.IPv4Subnets, a.IPv6Subnets...) {
		prefix, err := netip.ParsePrefix(subnet.Subnet)
		if err != nil {
			s.Refused = fmt.Sprintf("subnet %q is not in the form address/length", subnet.Subnet)
			return
		}
		subnets = append(subnets, prefix.Masked().String())
		gateway, _, _ := strings.Cut(subnet.Gateway, "/")
		if gateway != "" {
			gateways = append(gateways, gateway)
		}
		for _, text := range strings.Fields(gateway + " " + subnet.ExcludeIPs) {
			parts, err := parts(text, prefix)
			if err != nil {
				s.Refused = err.Error()
				return
			}
			excluded = append(excluded, parts...)
		}
	}
	if len(excluded) > maxExcluded {
		s.Refused = fmt.Sprintf("gateway and excludeIps make %d subnets, at most %d", len(excluded), maxExcluded)
	}
	s.conf.Subnets, s.conf.ExcludeSubnets, s.conf.DefaultGateways = join(subnets), join(excluded), join(gateways)
}

// parts divides an address, or a range a..b, into subnets.
func parts(text string, in netip.Prefix) (out []string, err error) {
	first, last, isRange := strings.Cut(text, "..")
	from, err := netip.ParseAddr(first)
	to := from
	if err == nil && isRange {
		to, err = netip.ParseAddr(last)
	}
	if err != nil || to.Less(from) || !in.Contains(from) || !in.Contains(to) {
		return nil, fmt.Errorf("%q is neither an address nor a range a..b in subnet %s", text, in)
	}
	for len(out) <= maxExcluded {
		// The largest subnet that begins at from and ends before or at to.
		bits := from.BitLen()
		for bits > 0 {
			larger := netip.PrefixFrom(from, bits-1)
			if larger.Masked().Addr() != from || to.Less(end(larger)) {
				break
			}
			bits--
		}
		part := netip.PrefixFrom(from, bits)
		out = append(out, part.String())
		if end(part) == to {
			break
		}
		from = end(part).Next()
	}
	return out, nil
}

// end is the last address of a subnet.
func end(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}
