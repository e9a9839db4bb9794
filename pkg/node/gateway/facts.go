package gateway

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// encapAddress is the address at which tunnels end: the node's in the configured network, or the node's first.
func encapAddress(cfg Config, s State, g Gateway) (netip.Addr, error) {
	if cfg.EncapNetwork.IsValid() {
		var addrs []netip.Addr
		for _, prefixes := range s.Addrs {
			for _, p := range prefixes {
				if cfg.EncapNetwork.Contains(p.Addr()) {
					addrs = append(addrs, p.Addr())
				}
			}
		}
		if len(addrs) == 0 {
			return netip.Addr{}, node.NotReady("no interface has an encapsulation address in %s", cfg.EncapNetwork)
		}
		return slices.MinFunc(addrs, netip.Addr.Compare), nil
	}
	addrs := primary(cfg, s, hostLink(s, g))
	if len(addrs) == 0 {
		return netip.Addr{}, node.NotReady("gateway bridge %s has no address of the cluster's families", g.Bridge)
	}
	return addrs[0].Addr(), nil
}

// underlay is the MTU of the interface with the tunnels' end. The gateway
// bridge counts with its NIC's, for its own may just have been made.
func underlay(s State, encap netip.Addr) (int, error) {
	name := s.LinkOf(encap)
	if name == "" {
		return 0, node.NotReady("no interface has the encapsulation address %s", encap)
	}
	if s.Saved != nil && name == s.Saved.Bridge {
		return s.Saved.MTU, nil
	}
	return s.Links[name].MTU, nil
}

// settings are the external_ids of the Open_vSwitch table that ovn-controller
// reads.
func settings(cfg Config, s State, g Gateway, encap netip.Addr) map[string]string {
	keys := node.ControllerSettings(cfg.Node, cfg.Remote, cfg.Datapath, encap)
	keys[node.BridgeMappings] = node.Mappings(s.Settings[node.BridgeMappings], g.Bridge, s.Second.Bridge)
	return keys
}

// unset removes what settings has set; "" deletes a key.
func unset(cfg Config, s State) map[string]string {
	keys := settings(cfg, s, Gateway{}, netip.Addr{})
	for key := range keys {
		keys[key] = ""
	}
	keys[node.BridgeMappings] = node.Mappings(s.Settings[node.BridgeMappings], "", "")
	return keys
}

// gatewayConfig is what the controller makes the network's gateway router from.
func gatewayConfig(cfg Config, s State, g Gateway) contract.GatewayConfig {
	link := hostLink(s, g)
	addrs := primary(cfg, s, link)
	gateway := contract.GatewayConfig{
		Mode: "shared", Bridge: g.Bridge, Interface: localnetPort(cfg, g),
		MAC: contract.MAC(s.Links[g.Bridge].MAC), Addresses: addrs, NextHops: uplinkTo(cfg, s, g, link).Of(s.Routes),
		NodePortEnable: "true", VLANID: "0", Routes: uplinkTo(cfg, s, g, link).Routes(s.Routes),
	}
	if s.Second.Bridge != "" {
		gateway.SecondGateway = contract.SecondGateway{
			Interface: localnetPort(cfg, s.Second),
			MAC:       contract.MAC(s.Links[s.Second.Bridge].MAC), Addresses: primary(cfg, s, s.Second.Bridge),
		}
	}
	if len(addrs) == 1 {
		gateway.Address = &addrs[0]
	}
	if len(gateway.NextHops) == 1 {
		gateway.NextHop = &gateway.NextHops[0]
	}
	return gateway
}

// annotations tell the controller what the node is, beside its gatewayConfig.
func annotations(cfg Config, s State, g Gateway, encap netip.Addr, mtu int) (map[string]string, error) {
	chassis := s.Settings["system-id"]
	if chassis == "" {
		return nil, errors.New("the Open_vSwitch database has no system-id")
	}
	addrs := primary(cfg, s, hostLink(s, g))
	out := map[string]string{contract.NodeChassisIDKey: chassis, contract.NodeMTUKey: checkedMTU(s, mtu)}
	for key, value := range map[string]any{
		contract.NodeEncapIPsKey:       []netip.Addr{encap},
		contract.NodePrimaryAddressKey: contract.PrimaryAddressOf(addrs),
		contract.HostCIDRsKey:          s.HostCIDRs(),
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out[key] = string(text)
	}
	return out, nil
}

// checkedMTU is the length to which the gateway router holds packets, "" for any.
func checkedMTU(s State, mtu int) string {
	if s.NoLengthCheck {
		return ""
	}
	return strconv.Itoa(mtu)
}
