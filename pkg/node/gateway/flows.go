package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/masquerade"
	"github.com/ovn-offload/ovn-offload/pkg/node/redirect"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// Flows is the OpenFlow table of a bridge; pkg/openflow is one. Watch sends on changed when the table changed or the
// switch restarted, until ctx ends.
type Flows interface {
	Replace(ctx context.Context, bridge string, flows []string) error
	Dump(ctx context.Context, bridge, match string, flow func(string)) error
	Watch(ctx context.Context, bridge string, changed func(flow string))
}

// direct keeps the flows of the gateway bridge, the host's own included, because the router is connected to it. A
// restart of ovs-vswitchd removes the flows, and other programs may change them.
func (s *Setup) direct(ctx context.Context, st State, g Gateway, services flows.Services, synced bool) error {
	w, err := bridgeOf(s.cfg, st, g)
	if err != nil {
		return err
	}
	for i := range w.Routers {
		w.Routers[i].Masquerade = flows.Masquerades(s.cfg.Zone.MasqueradeSubnets, st.Services, w.Addresses)
	}
	w.Services = services.At(w.Addresses)
	if synced || !s.directed(ctx, g.Bridge) {
		table := flows.Table(w)
		if err := s.write(ctx, g.Bridge, table); err != nil {
			return err
		}
		s.metrics.observe(w, len(table))
	}
	s.watch(ctx, g.Bridge, s.Mark)
	return nil
}

// bridgeOf leaves out services and the masquerade addresses for them.
func bridgeOf(cfg Config, s State, g Gateway) (flows.Bridge, error) {
	link, ok := s.Links[g.Bridge]
	if !ok {
		return flows.Bridge{}, node.NotReady("gateway bridge %s has no link", g.Bridge)
	}
	uplink, err := uplinkOf(cfg, s, g)
	w := flows.Bridge{
		MAC: link.MAC.String(), Uplink: s.OFPorts[uplink],
		Host: hostPort(s, g), Shared: shared(cfg, s, g), Guests: guests(s, g),
		ClusterSubnets: append(cfg.Network.Prefixes(), contract.PrefixesOf(contract.RoutedOf(s.Namespaces, false))...),
		RoutedSubnets:  contract.PrefixesOf(contract.RoutedOf(s.Namespaces, true)), Addresses: primary(cfg, s, hostLink(s, g)),
	}
	if port := s.OFPorts[routerPort(cfg, g)]; port != 0 {
		w.Routers = []flows.Router{{Port: port, Mark: flows.MarkDefault}}
	}
	for _, subnet := range cfg.Zone.MasqueradeSubnets {
		w.Masquerade = append(w.Masquerade, subnet.Masked())
	}
	w.Own = node.AddrsOf(s.HostCIDRs())
	return w, err
}

// guests are the bridge's ports to functions of a DPU's host that OVS has opened.
func guests(s State, g Gateway) []int {
	var ports []int
	for _, name := range s.Eswitch.Guests {
		if port := s.OFPorts[name]; port != 0 && s.Ports[name] == g.Bridge {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// shared reports whether the bridge has ports that are neither uplinks nor ours: ovn-controller's for other networks,
// an administrator's.
func shared(cfg Config, s State, g Gateway) bool {
	for port, bridge := range s.Ports {
		if bridge == g.Bridge && port != g.Bridge && port != g.NIC && port != routerPort(cfg, g) && !s.Ours[port] {
			return true
		}
	}
	return false
}

func (b *bridge) write(ctx context.Context, name string, table []string) error {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	if err := b.deps.Flows.Replace(ctx, name, flows.WithCookies(table)); err != nil {
		return fmt.Errorf("gateway bridge: %w", err)
	}
	return nil
}

// rangesOf are the ranges of services to lead the node to.
func (s *Setup) rangesOf(st State, g Gateway, services flows.Services, synced bool) []netip.Prefix {
	subnets, refused := masquerade.Subnets(s.cfg.Config, st.State, hostLink(st, g), services.Subnets, synced)
	if len(refused) > 0 {
		s.Deps.Logger.Warn("ranges of services that overlap networks of the node or its pods are left out", "ranges", refused)
	}
	return subnets
}

// planMasquerade leads the node to the ranges of services.
func planMasquerade(cfg Config, s State, g Gateway, mtu int) []node.Step {
	link := hostLink(s, g)
	all := flows.Masquerades(cfg.Zone.MasqueradeSubnets, s.Services, primary(cfg, s, link))
	return masquerade.Plan(s.State, masquerade.Want{Link: link, Bridge: g.Bridge, All: all, MTU: mtu})
}

// takenBy are the networks of which no author of a service may choose an address, as far as a node knows them: its own
// addresses, those of pods and of services.
func (s *Setup) takenBy(st State) []netip.Prefix {
	taken := slices.Concat(st.PodSubnets(s.cfg.Network), s.cfg.Zone.MasqueradeSubnets, st.Services)
	for _, addr := range service.HostAddresses(s.Deps.Node()) {
		taken = append(taken, flows.Single(addr))
	}
	return taken
}

// tableOf is what the node's nftables table depends on, where link has the node's addresses.
func tableOf(cfg Config, s State, link string, services flows.Services) redirect.Node {
	n := redirect.Node{Addresses: primary(cfg, s, link), Services: services, Gateway: link}
	if cfg.Forwards {
		n.Gateway = ""
	}
	if cfg.Datapath == DatapathUserspace {
		n.Copied = node.BridgedNICs(s.Links, s.Ports)
	}
	return n
}

// services are also the ranges of their addresses; false until they are synced.
func (s *Setup) services() (flows.Services, bool) {
	if s.deps.Services == nil {
		return flows.Services{}, true
	}
	return s.deps.Services()
}

// directed reports whether an agent before us has left a table: it had services that are not synced here yet.
func (s *Setup) directed(ctx context.Context, bridge string) bool {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	found := false
	err := s.deps.Flows.Dump(ctx, bridge, fmt.Sprintf("table=%d", flows.TableAnswer), func(string) { found = true })
	return err == nil && found
}

// routerPort is what ovn-controller calls the bridge's end of the gateway router's way out, after the localnet port
// that the annotation names.
func routerPort(cfg Config, g Gateway) string {
	return "patch-" + localnetPort(cfg, g) + "-to-" + contract.IntegrationBridge
}

func localnetPort(cfg Config, g Gateway) string { return g.Bridge + "_" + cfg.Node }

// watch marks a pass when the bridge's table changes.
func (b *bridge) watch(ctx context.Context, name string, mark func()) {
	if b.watched == name {
		return
	}
	b.watched = name
	go b.deps.Flows.Watch(ctx, name, func(string) { mark() })
}
