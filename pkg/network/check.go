package network

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// maxName is the limit for a network's name, which is a part of the names of OVN's rows.
const maxName = 128

// check says what a netconf may not say.
func check(c netconf, n contract.Network) error {
	for _, err := range []error{checkName(n.Name), checkKinds(c, n), checkSecurity(c, n), checkNumbers(n), checkLists(c, n)} {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("name %.200q must have 1 to %d characters", name, maxName)
	case slices.Contains([]string{contract.DefaultNetwork, "ovn-kubernetes", "ext", "transit", "GR"}, name):
		return fmt.Errorf("name %q is reserved", name)
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "":
		return fmt.Errorf("name %.200q has characters other than letters, digits, '-', '.' and '_'", name)
	}
	return nil
}

func checkKinds(c netconf, n contract.Network) error {
	switch n.Topology {
	case contract.Layer3, contract.Layer2, contract.Localnet:
	default:
		return fmt.Errorf("topology %.100q is none of layer3, layer2 and localnet", c.Topology)
	}
	isPrimary := n.IsPrimary()
	switch {
	case !isPrimary && n.Role != contract.RoleSecondary:
		return fmt.Errorf("role %.100q is neither primary nor secondary", c.Role)
	case isPrimary && n.Topology == contract.Localnet:
		return errors.New("a network of topology localnet cannot have the role primary")
	case isPrimary && len(n.Subnets) == 0:
		return errors.New("subnets are missing")
	case c.hasIPAM():
		return errors.New("ipam is not supported: give subnets")
	case c.Transport != "" && c.Transport != "geneve":
		return fmt.Errorf("transport %.100q is not supported: leave it out, for Geneve", c.Transport)
	}
	switch n.Topology {
	case contract.Layer3:
		return checkLayer3(c, n)
	case contract.Localnet:
		return checkLocalnet(c)
	}
	return c.withoutLocalnet()
}

func checkSecurity(c netconf, n contract.Network) error {
	switch {
	case !slices.Contains([]string{"", securityIP, securityMAC}, c.PortSecurity):
		return fmt.Errorf("portSecurity %.100q is neither ip nor mac", c.PortSecurity)
	case n.IsPrimary() && n.Forward:
		return errors.New("portSecurity mac needs the role secondary")
	}
	return nil
}

func (c netconf) hasIPAM() bool {
	var ipam struct {
		Type string `json:"type"`
	}
	return len(c.IPAM) > 0 && (json.Unmarshal(c.IPAM, &ipam) != nil || ipam.Type != "")
}

func checkLayer3(c netconf, n contract.Network) error {
	switch {
	case len(n.Subnets) == 0:
		return errors.New("subnets are missing")
	case n.Persistent:
		return errors.New("allowPersistentIPs needs topology layer2 or localnet")
	case c.DefaultGateways != "":
		return errors.New("defaultGatewayIPs needs topology layer2 or localnet")
	case c.ExcludeSubnets != "":
		return errors.New("excludeSubnets needs topology layer2 or localnet")
	}
	return cmp.Or(c.withoutLayer2(), c.withoutLocalnet())
}

func checkLocalnet(c netconf) error {
	if c.JoinSubnet != "" {
		return errors.New("joinSubnet needs topology layer3 or layer2")
	}
	return c.withoutLayer2()
}

func (c netconf) withoutLayer2() error {
	if c.ReservedSubnets+c.InfraSubnets != "" {
		return errors.New("reservedSubnets and infrastructureSubnets need topology layer2")
	}
	return nil
}

func (c netconf) withoutLocalnet() error {
	if c.VLAN != 0 || c.PhysicalNetwork != "" {
		return errors.New("vlanID and physicalNetworkName need topology localnet")
	}
	return nil
}

func checkNumbers(n contract.Network) error {
	switch {
	case n.MTU != 0 && (n.MTU < 576 || n.MTU > 65535):
		return fmt.Errorf("mtu %d is not between 576 and 65535", n.MTU)
	case n.MTU != 0 && n.MTU < 1280 && slices.Contains(n.Families(), contract.IPv6):
		return fmt.Errorf("mtu %d is less than 1280, which IPv6 needs", n.MTU)
	case n.VLAN < 0 || n.VLAN > 4094:
		return fmt.Errorf("vlanID %d is not between 0 and 4094", n.VLAN)
	case strings.ContainsAny(n.PhysicalNetwork, ",: \"") || len(n.PhysicalNetwork) > 253:
		return fmt.Errorf("physicalNetworkName %.300q has one of the characters ',', ':', '\"' and space, or is too long", n.PhysicalNetwork)
	}
	return nil
}

func checkLists(c netconf, n contract.Network) error {
	all := n.Prefixes()
	slices.SortFunc(all, netip.Prefix.Compare) // the larger of two that overlap comes first, and none that overlaps neither is between
	for i := 1; i < len(all); i++ {
		if all[i].Overlaps(all[i-1]) {
			return fmt.Errorf("subnets %s and %s overlap", all[i-1], all[i])
		}
	}
	for key, list := range map[string]string{
		"excludeSubnets": c.ExcludeSubnets, "reservedSubnets": c.ReservedSubnets, "infrastructureSubnets": c.InfraSubnets,
	} {
		parts, err := parsePrefixes(list)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for _, part := range parts {
			if !slices.ContainsFunc(all, func(s netip.Prefix) bool { return s.Contains(part.Addr()) && s.Bits() <= part.Bits() }) {
				return fmt.Errorf("%s: %s is in none of the subnets", key, part)
			}
		}
	}
	return nil
}

// Conflicts says with which subnet of the cluster a network's subnets overlap; nil with none. A pod could not reach
// that subnet. A localnet may be a part of an external network, and is not looked at.
func Conflicts(n contract.Network, cluster map[string][]netip.Prefix) error {
	if n.Topology == contract.Localnet {
		return nil
	}
	for _, subnet := range n.Prefixes() {
		for name, prefixes := range cluster {
			for _, other := range prefixes {
				if subnet.Overlaps(other) {
					return fmt.Errorf("subnet %s overlaps the %s subnet %s", subnet, name, other)
				}
			}
		}
	}
	return nil
}
