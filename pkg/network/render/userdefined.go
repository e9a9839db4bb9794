package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

func (s *Source) userDefined() error {
	udn, err := decode[ovnv1.UserDefinedNetwork](s.Object)
	if err != nil {
		return err
	}
	s.network(ovnv1.Network{Topology: udn.Spec.Topology, Layer3: udn.Spec.Layer3, Layer2: udn.Spec.Layer2})
	return nil
}

func (s *Source) clusterUserDefined() error {
	cudn, err := decode[ovnv1.ClusterUserDefinedNetwork](s.Object)
	if err != nil {
		return err
	}
	s.network(cudn.Spec.Network)
	return nil
}

// network renders what both kinds have.
func (s *Source) network(n ovnv1.Network) {
	role := ovnv1.RoleSecondary
	switch {
	case n.Topology == ovnv1.TopologyLayer3 && n.Layer3 != nil:
		role = n.Layer3.Role
		s.layer3(*n.Layer3)
	case n.Topology == ovnv1.TopologyLayer2 && n.Layer2 != nil:
		role = n.Layer2.Role
		s.layer2(*n.Layer2)
	case n.Topology == ovnv1.TopologyLocalnet && n.Localnet != nil:
		s.localnet(*n.Localnet)
	default:
		s.Refused = fmt.Sprintf("topology %q has no settings of its name", n.Topology)
	}
	s.IsPrimary = role == ovnv1.RolePrimary
	s.conf.Topology, s.conf.Role = strings.ToLower(string(n.Topology)), strings.ToLower(string(role))
	s.transport(n)
	if len(n.Uplinks) > 0 {
		s.Refused = "uplinks is not supported"
	}
}

func (s *Source) layer3(n ovnv1.Layer3) {
	var subnets []string
	for _, subnet := range n.Subnets {
		text := string(subnet.CIDR)
		if subnet.HostSubnet != 0 {
			text += fmt.Sprintf("/%d", subnet.HostSubnet)
		}
		subnets = append(subnets, text)
	}
	s.conf.Subnets, s.conf.MTU = join(subnets), n.MTU
	if n.Role == ovnv1.RolePrimary {
		s.conf.JoinSubnet = cmp.Or(join(n.JoinSubnets), defaultJoin)
	}
}

func (s *Source) layer2(n ovnv1.Layer2) {
	s.conf.Subnets, s.conf.MTU = join(n.Subnets), n.MTU
	s.conf.ReservedSubnets, s.conf.InfraSubnets, s.conf.DefaultGateways = join(n.ReservedSubnets), join(n.InfrastructureSubnets), join(n.DefaultGatewayIPs)
	s.conf.AllowPersistent = isPersistent(n.IPAM)
	if n.Role == ovnv1.RolePrimary {
		s.conf.JoinSubnet = cmp.Or(join(n.JoinSubnets), defaultJoin)
		var err error
		if s.conf.TransitSubnet, err = transit(s.conf.Subnets, s.conf.JoinSubnet); err != nil {
			s.Refused = err.Error()
		}
	}
}

func (s *Source) localnet(n ovnv1.Localnet) {
	s.conf.Subnets, s.conf.ExcludeSubnets, s.conf.MTU = join(n.Subnets), join(n.ExcludeSubnets), n.MTU
	s.conf.PhysicalNetwork, s.conf.AllowPersistent = n.PhysicalNetworkName, isPersistent(n.IPAM)
	if n.VLAN != nil && n.VLAN.Access != nil {
		s.conf.VLAN = n.VLAN.Access.ID
	}
}

func isPersistent(ipam *ovnv1.IPAM) bool {
	return ipam != nil && ipam.Lifecycle == ovnv1.IPAMPersistent
}

func (s *Source) transport(n ovnv1.Network) {
	s.Transport = n.Transport
	switch n.Transport {
	case ovnv1.TransportNoOverlay:
		s.conf.Transport = "no-overlay"
	case ovnv1.TransportEVPN:
		s.conf.Transport = "evpn"
	}
	if n.EVPN == nil {
		return
	}
	s.conf.EVPN = &evpn{VTEP: n.EVPN.VTEP, MACVRF: vrfOf(n.EVPN.MACVRF), IPVRF: vrfOf(n.EVPN.IPVRF)}
}

func vrfOf(v *ovnv1.VRF) *vrf {
	if v == nil {
		return nil
	}
	return &vrf{v.VNI, string(v.RouteTarget)}
}
