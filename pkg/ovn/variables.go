package ovn

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// buildNodeServices gives a node's values for the templates in load balancers:
// its addresses, and for services whose backends differ from node to node its
// own. Where a node lacks a variable, the frontend does not exist on it: so a
// node without local endpoints needs no row, and the row has as many values as
// the node has such endpoints.
func buildNodeServices(view View, cfg Config, name string) ([]ovsdb.Row, error) {
	node := view.Node(name)
	if node == nil || node.Annotations[kube.NodeChassisIDKey] == "" {
		return nil, nil
	}
	v := variables{node: node, cfg: cfg, own: map[netip.Addr]bool{}, values: map[string]string{}}
	for _, address := range kube.GatewayAddresses(node) {
		v.own[address.Addr] = true
		v.values[nodeVariable(address.Addr.Is6(), address.Nth)] = address.Addr.String()
	}
	for _, service := range view.ServicesOn(name) {
		s, err := readService(view, service)
		if s == nil || err != nil {
			continue // what is wrong with a service is told by its own owner
		}
		ports, err := s.ports(view)
		if err != nil {
			continue
		}
		for _, port := range ports {
			v.add(port)
		}
	}
	return []ovsdb.Row{{
		ID:    "variables",
		Model: &nb.ChassisTemplateVar{Chassis: node.Annotations[kube.NodeChassisIDKey], Variables: v.values},
	}}, nil
}

// variables collects the values of one node.
type variables struct {
	node   *corev1.Node
	cfg    Config
	own    map[netip.Addr]bool
	values map[string]string
}

// add takes a port's backends as the node has them.
func (v *variables) add(p servicePort) {
	before := len(v.values)
	for _, t := range append(p.internal(), p.external()...) {
		v.addTarget(t)
	}
	if len(v.values) == before || p.address.Is4() {
		return
	}
	for _, address := range append(p.service.external, p.address) {
		if address.Is6() {
			v.values[addressVariable(address)] = address.String()
		}
	}
}

func (v *variables) addTarget(t target) {
	if !t.variable {
		return
	}
	var chosen []endpoint
	switch t.choice {
	case chooseLocal:
		chosen = onNode(t.endpoints, v.node.Name)
	case chooseNear:
		chosen = near(t.endpoints, v.node.Name, v.node.Labels[corev1.LabelTopologyZone])
	default:
		chosen = usable(t.endpoints)
	}
	router := t.onNodes && t.audience == onRouters
	if router {
		chosen = v.seenByRouter(chosen, t.many && t.choice != chooseLocal)
	}
	if len(chosen) > 0 {
		v.values[t.variableOf(t.choice, router)] = backends(chosen)
	}
}

// seenByRouter replaces the node's own addresses, which are the router's too, by
// the one that stands for the node. With many, they are all that a router needs
// whose node has some.
func (v *variables) seenByRouter(chosen []endpoint, many bool) []endpoint {
	var out, mine []endpoint
	for _, e := range chosen {
		if !v.own[e.address.Addr()] {
			out = append(out, e)
			continue
		}
		for _, subnet := range v.cfg.MasqueradeSubnets {
			if subnet.Addr().Is6() == e.address.Addr().Is6() {
				e.address = netip.AddrPortFrom(hostPrefix(subnet, ownNodeOffset).Addr(), e.address.Port())
				mine = append(mine, e)
				break
			}
		}
	}
	if len(mine) > 0 && many {
		return mine
	}
	return append(mine, out...)
}
