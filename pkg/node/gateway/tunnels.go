package gateway

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// tunnels sets up what secondary networks need where another CNI plugin has the default network: the settings of
// ovn-controller, and the annotations that name the node's chassis and its end of tunnels. No interface, address, route or
// rule of the node is touched.
func (s *Setup) tunnels(ctx context.Context) (mtu int, annotated, err error) {
	st, err := s.observe(ctx)
	if err != nil {
		return 0, nil, err
	}
	s.links.Remember(st.State, contract.IntegrationBridge)
	cfg := s.cfg
	if !cfg.EncapNetwork.IsValid() && len(st.NodeAddrs) > 0 {
		cfg.EncapNetwork = netip.PrefixFrom(st.NodeAddrs[0], st.NodeAddrs[0].BitLen())
	}
	encap, err := encapAddress(cfg, st, Gateway{})
	if err != nil {
		return 0, nil, err
	}
	link, err := underlay(st, encap)
	if err != nil {
		return 0, nil, err
	}
	if mtu, err = s.PodMTU(s.cfg.MTU, link, encap, s.cfg.Network.Families()); err != nil {
		return 0, nil, err
	}
	if err := s.merge(ctx, settings(s.cfg, st, Gateway{}, encap)); err != nil {
		return 0, nil, err
	}
	object, chassis := s.Deps.Node(), st.Settings["system-id"]
	if object == nil || chassis == "" {
		return mtu, node.NotReady("node %s has no Node object or no system-id in its Open_vSwitch database yet", s.cfg.Node), nil
	}
	return mtu, s.Deps.Annotate(ctx, object, map[string]string{
		contract.NodeChassisIDKey: chassis, contract.NodeEncapIPsKey: fmt.Sprintf("[%q]", encap),
	}), nil
}
