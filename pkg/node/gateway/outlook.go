package gateway

import (
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// Outlook is what a Setup would begin with on a host, before anything is changed.
type Outlook struct {
	Gateway
	// TakenOver says that the uplink has been taken over already, and that this was verified.
	TakenOver bool
	// Addresses are those that the bridge has or would get.
	Addresses []netip.Prefix
	// Underlay is the MTU of the interface with the tunnels' end, MTU that of pods.
	Underlay, MTU int
	// Problem is why no bridge could be made, MTUProblem why pods would have no MTU.
	Problem, MTUProblem error
	// NextHopProblem is why pods would reach no other networks.
	NextHopProblem error
}

// Foresee looks at the host without a database, the API server or any change.
func Foresee(cfg Config, netns node.Netns) (State, Outlook, error) {
	var st State
	host := &node.Host{Config: cfg.Config, Deps: node.Deps{Netns: netns}}
	if err := host.ObserveHost(&st.State); err != nil {
		return st, Outlook{}, fmt.Errorf("observing the host: %w", err)
	}
	var err error
	if st.Saved, err = loadCheckpoint(cfg.Checkpoint); err != nil {
		return st, Outlook{}, err
	}
	st.follow()
	st.Boot = cfg.Boot
	return st, foresee(cfg, st), nil
}

// Bridges names the bridges that a Setup makes of the node's uplinks, or has made.
func Bridges(cfg Config, netns node.Netns) ([]string, error) {
	configs := []Config{cfg}
	if cfg.SecondInterface != "" {
		configs = append(configs, cfg.ofSecond())
	}
	var names []string
	for _, c := range configs {
		_, outlook, err := Foresee(c, netns)
		if err != nil {
			return nil, err
		}
		if outlook.NIC != "" {
			names = append(names, outlook.Bridge)
		}
	}
	return names, nil
}

// foresee is pure. An OVS bridge of the host has no NIC in the Gateway.
func foresee(cfg Config, s State) Outlook {
	if name := gatewayName(cfg, s); s.Saved == nil && s.Links[name].Type == "openvswitch" {
		s.Bridges = append(s.Bridges, name)
	}
	var o Outlook
	o.TakenOver = s.Saved != nil && s.Saved.Verified
	if link := s.Links[gatewayName(cfg, s)]; s.Saved == nil && isPortOfOVS(s, link) {
		// A bridge of the host, whose name only the database knows.
		o.Gateway, o.Underlay = Gateway{Bridge: "of " + link.Name}, link.MTU
		return o
	}
	if o.Gateway, o.Problem = chooseGateway(cfg, s); o.Problem != nil {
		return o
	}
	on := o.NIC
	switch {
	case s.Saved != nil && len(primary(cfg, s, hostLink(s, o.Gateway))) > 0: // else the host has just booted
		on = hostLink(s, o.Gateway)
	case !o.owned():
		on = o.Bridge
	}
	if o.Addresses = primary(cfg, s, on); len(o.Addresses) == 0 {
		o.Problem = fmt.Errorf("interface %s has no address of the cluster's families", on)
		return o
	}
	o.NextHopProblem = uplinkTo(cfg, s, o.Gateway, on).Problem(s.Routes)
	encap := o.Addresses[0].Addr()
	if cfg.EncapNetwork.IsValid() {
		if encap, o.MTUProblem = encapAddress(cfg, s, o.Gateway); o.MTUProblem != nil {
			return o
		}
	}
	if o.Underlay, o.MTUProblem = underlay(s, encap); o.MTUProblem == nil {
		o.MTU, o.MTUProblem = node.PodMTU(cfg.MTU, o.Underlay, encap, cfg.Network.Families())
	}
	return o
}

func isPortOfOVS(s State, link netdev.Link) bool {
	master := s.Links["ovs-system"]
	return link.Master != 0 && link.Master == master.Index
}
