package gateway

import (
	"context"
	"fmt"

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
	encap := st.NodeAddrs
	if s.cfg.EncapNetwork.IsValid() || len(encap) == 0 {
		addr, err := encapAddress(s.cfg, st, Gateway{})
		if err != nil {
			return 0, nil, err
		}
		encap = append(encap[:0:0], addr)
	}
	link, err := underlay(st, encap[0])
	if err != nil {
		return 0, nil, err
	}
	if mtu, err = node.PodMTU(s.cfg.MTU, link, encap[0], s.cfg.Network.Families()); err != nil {
		return 0, nil, err
	}
	if err := s.merge(ctx, settings(s.cfg, st, Gateway{}, encap[0])); err != nil {
		return 0, nil, err
	}
	object, chassis := s.Deps.Node(), st.Settings["system-id"]
	if object == nil || chassis == "" {
		return mtu, node.NotReady("node %s has no Node object or no system-id in its Open_vSwitch database yet", s.cfg.Node), nil
	}
	return mtu, s.Deps.Annotate(ctx, object, map[string]string{
		contract.NodeChassisIDKey: chassis, contract.NodeEncapIPsKey: fmt.Sprintf("[%q]", encap[0]),
	}), nil
}
