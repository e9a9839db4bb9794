// Package lb builds load balancers: those of services, on the default network and on primary networks, those of the ports
// that pods have on their nodes, and what nodes give to load balancers with template variables.
//
// Place in the data flow: Services, EndpointSlices -> BuildService, BuildNode (the kind table of pkg/ovn calls them) -> rows.
//
//	view.go      the facts that this package reads
//	limits.go    how many backends a service may have
//	service.go   a service's load balancers; frontend.go and endpoint.go: of what
//	primary.go   services of primary networks, and the services of the default network that their pods reach
//	external.go  the addresses of a service that are not the cluster's
//	variables.go a node's own values in the load balancers of all nodes
//	values.go    what services give to these, by zone and node
//	hostport.go  a pod's ports on its node
package lb

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	facts "github.com/ovn-offload/ovn-offload/pkg/service"
)

// service is a Service that we serve, with its endpoints.
type service struct {
	*corev1.Service
	slices []*discoveryv1.EndpointSlice
	// addresses are its cluster addresses, one for each of its families.
	addresses []netip.Addr
	// external are the addresses that it has from outside the cluster's own.
	external []netip.Addr
	// further is the network that it is on, if it is not the default network.
	further *contract.Network
}

// servicePort is a port of a service in one family, with what is behind it.
type servicePort struct {
	corev1.ServicePort
	service   *service
	address   netip.Addr // the cluster address of the family
	endpoints []endpoint
	// reached are those to which gateway routers may lead: not those in the subnets of networks of others. They are all,
	// unless guarded.
	reached []endpoint
	guarded bool
	// onHostNetwork says that some of them are on the network of nodes; many, that a router
	// with some of its own needs no others.
	onHostNetwork, many bool
}

// readService is nil for services that are not ours to serve.
func readService(view View, net scope, name types.NamespacedName) (*service, error) {
	object := view.Service(name.Namespace, name.Name)
	if !facts.IsServed(object) {
		return nil, nil
	}
	s := &service{Service: object, slices: view.EndpointSlices(name.Namespace, name.Name)}
	var err error
	if s.addresses, err = parseAddresses(facts.ClusterIPs(object)); err != nil {
		return nil, fmt.Errorf("cluster address of the service: %w", err)
	}
	if s.external, _, err = externalAddresses(view, net, object); err != nil {
		return nil, fmt.Errorf("external address of the service: %w", err)
	}
	return s, nil
}

func parseAddresses(texts []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		out = append(out, addr.Unmap().WithZone(""))
	}
	return out, nil
}

// ports are the service's ports, each in each of its families, without those beyond the limit.
func (s *service) ports(view View) ([]servicePort, error) {
	var out []servicePort
	numbers, left := numbersOf(s.slices), MaxBackends
	for _, port := range s.Spec.Ports {
		for _, address := range s.addresses {
			some := s.having(numbers, port, contract.FamilyOf(address))
			cost := s.cost(some)
			if cost > left {
				continue
			}
			left -= cost
			p, err := s.port(view, port, address, some)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// port is a port in the family of one of the cluster addresses, with the slices that have it.
func (s *service) port(view View, port corev1.ServicePort, address netip.Addr, some []numbered) (p servicePort, err error) {
	endpoints, err := endpointsOf(some, contract.FamilyOf(address))
	if err != nil {
		return p, err
	}
	p = servicePort{ServicePort: port, service: s, address: address, endpoints: endpoints, reached: endpoints}
	if foreign := s.foreign(view, endpoints); len(foreign) > 0 {
		is := map[netip.Addr]bool{}
		for _, addr := range foreign {
			is[addr] = true
		}
		p.guarded, p.reached = true, filter(endpoints, func(e endpoint) bool { return !is[e.address.Addr()] })
	}
	for _, slice := range some {
		on, many := view.OnNodes(slice.EndpointSlice)
		p.onHostNetwork, p.many = p.onHostNetwork || on, p.many || many
	}
	return p, nil
}

// foreign are the addresses of endpoints in the subnets of primary networks that the service is not on. A gateway router must
// not lead there, so it does not have them. The load balancers of switches do: nothing leads from there to such a network.
func (s *service) foreign(view Primaries, some []endpoint) (addrs []netip.Addr) {
	own := ""
	if s.further != nil {
		own = s.further.Name
	}
	for _, e := range some {
		if view.IsForeign(own, e.address.Addr()) {
			addrs = append(addrs, e.address.Addr())
		}
	}
	return addrs
}

func (s *service) externalLocal() bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func (s *service) internalLocal() bool {
	return s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
}

// maxAffinity is the API's longest affinity: for ever, for practical purposes.
const maxAffinity = 86400

// affinity is how many seconds a client stays with its backend, 0 for not at all.
func (s *service) affinity() int {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return int(*c.ClientIP.TimeoutSeconds)
	}
	return int(corev1.DefaultClientIPServiceAffinitySeconds)
}

// BuildService gives a service's load balancers: one for each protocol, scope
// and kind of backends that its frontends have, whatever the number of nodes.
func BuildService(view View, network contract.Network, owner contract.Owner) ([]ovsdb.Row, error) {
	net := scope{network, view.Zone()}
	s, err := readService(view, net, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
	if s == nil || err != nil {
		return nil, err
	}
	if err := s.awaited(); err != nil {
		return nil, err
	}
	if err := s.onFurther(view); err != nil {
		return nil, err
	}
	ports, err := s.ports(view)
	if err != nil {
		return nil, err
	}
	if s.isSecondary() {
		return s.rows(scope{*s.further, net.Zone}, secondaryFrontends(ports)), nil
	}
	var frontends []frontend
	for _, port := range ports {
		frontends = append(append(frontends, port.frontends(view)...), port.elsewhere(view, net)...)
	}
	if s.further != nil {
		return s.primaryRows(view, net, frontends), nil
	}
	return s.rows(net, frontends), nil
}

// rows are the load balancers of frontends on a network.
func (s *service) rows(net scope, frontends []frontend) (rows []ovsdb.Row) {
	vips := map[balancer]map[string]string{}
	for _, f := range frontends {
		if vips[f.in] == nil {
			vips[f.in] = map[string]string{}
		}
		vips[f.in][f.vip] = f.backends
	}
	for in, pairs := range vips {
		rows = append(rows, s.row(net, in, pairs))
	}
	slices.SortFunc(rows, func(a, b ovsdb.Row) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

// awaited says which slices are still to come. Kubernetes makes one for each family
// of a service with a selector, if need be an empty one, some milliseconds after
// the service: rows before that would take a turn of northd and of every
// ovn-controller, which those that matter would wait for.
func (s *service) awaited() error {
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	for _, address := range s.addresses {
		family := addressType(contract.FamilyOf(address))
		if !slices.ContainsFunc(s.slices, func(slice *discoveryv1.EndpointSlice) bool { return slice.AddressType == family }) {
			return fmt.Errorf("%w: service %s/%s has no EndpointSlice of %s yet", reconcile.ErrNotReady, s.Namespace, s.Name, family)
		}
	}
	return nil
}

// row is one Load_Balancer.
func (s *service) row(net scope, in balancer, vips map[string]string) ovsdb.Row {
	protocol := strings.ToLower(string(in.protocol))
	lb := &nb.LoadBalancer{
		Name:        "Service_" + s.Namespace + "/" + s.Name + "_" + in.id(),
		Protocol:    &protocol,
		Vips:        vips,
		Options:     balancerOptions(net),
		ExternalIDs: map[string]string{"k8s.ovn.org/kind": contract.KindService, "k8s.ovn.org/owner": s.Namespace + "/" + s.Name},
	}
	id := in.id()
	if net.Name != "" {
		lb.Name, id = net.LoadBalancer(lb.Name), net.Name+" "+id
		lb.ExternalIDs[contract.NetworkLabel] = net.Name
	}
	if in.template {
		lb.Options["template"] = "true"
		lb.Options["address-family"] = in.familyName()
	}
	if in.keepSource || !backed(vips) {
		// OVN would apply SNAT to a rejection too, and the client would not match its source to the connection.
		lb.Options["skip_snat"] = "true"
	}
	switch seconds := s.affinity(); {
	case seconds == 0:
	case seconds < maxAffinity && !in.template:
		// OVN drops the packet with which an affinity begins; its sender repeats it.
		lb.Options["affinity_timeout"] = strconv.Itoa(seconds)
	default:
		// OVN has no affinity for templates; by the source's hash a client stays
		// with its backend for as long as the backends are the same.
		lb.SelectionFields = []string{nb.LoadBalancerSelectionFieldsIPSrc, nb.LoadBalancerSelectionFieldsIpv6Src}
	}
	return ovsdb.Row{ID: id, Model: lb, Parents: []ovsdb.Parent{{Table: nb.LoadBalancerGroupTable, Name: in.group(net), Column: columnLoadBalancer}}}
}

// backed reports whether any frontend has backends.
func backed(vips map[string]string) bool {
	for _, backends := range vips {
		if backends != "" {
			return true
		}
	}
	return false
}

// balancerOptions are those of every load balancer: without backends it rejects,
// and the connections of a backend that goes are forgotten.
func balancerOptions(net scope) map[string]string {
	options := map[string]string{
		"reject": "true", "event": "false", "skip_snat": "false", "neighbor_responder": "none", "ct_flush": "true",
	}
	if hairpin := hairpinAddresses(net); len(hairpin) > 0 {
		options["hairpin_snat_ip"] = strings.Join(hairpin, " ")
	}
	return options
}

// hairpinAddresses are those that a backend sees in place of its own when it is its own client. Pods of a secondary network
// reach the masquerade subnets by eth0, so they see a router's address of the network.
func hairpinAddresses(net scope) (out []string) {
	if net.Name == "" || net.IsPrimary() {
		for _, subnet := range net.MasqueradeSubnets {
			out = append(out, contract.PrefixAt(subnet, contract.MasqueradeHairpin).Addr().String())
		}
		return out
	}
	for _, family := range net.Families() {
		subnet, _ := family.Pick(net.Prefixes())
		address := contract.AddressAt(subnet, contract.RouterOffset)
		if gateway, ok := family.Pick(net.Gateways); ok {
			address = gateway.Addr()
		}
		out = append(out, address.String())
	}
	return out
}
