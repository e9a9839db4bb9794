package lb

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Values keeps, by zone and by node, the values that services have for the
// template variables of load balancers. One changed service is read again alone:
// without it each node's row would be built from all services. What it holds
// follows from the View, so that a builder that reads it stays a pure function.
type Values struct {
	mu sync.Mutex
	// all says that every service is to be read; stale are those that changed.
	all      bool
	stale    map[types.NamespacedName]bool
	services map[types.NamespacedName][]variable
	// zones are the values of nodes in a zone, nodes those of one node beside them.
	zones, nodes map[string]*valueSet
	// routers are the services with a backend at an address, seen by gateway routers.
	routers map[netip.Addr]map[types.NamespacedName]bool
}

// NewValues has read no service yet.
func NewValues() *Values {
	v := &Values{stale: map[types.NamespacedName]bool{}}
	v.Reset()
	return v
}

// Reset has every service read again.
func (v *Values) Reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = true
}

// Changed has the services among owners read again. It comes after the change of
// the View and before the owners are built.
func (v *Values) Changed(owners ...contract.Owner) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all { // they are among all
		return
	}
	for _, owner := range owners {
		if owner.Kind == contract.KindService {
			v.stale[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}] = true
		}
	}
}

// on are the values of a node whose gateway has the given addresses.
func (v *Values) on(view View, net scope, node *corev1.Node, own []netip.Addr) map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(view, net)
	zone := node.Labels[corev1.LabelTopologyZone]
	values := maps.Clone(v.zone(zone).values)
	if set := v.nodes[node.Name]; set != nil {
		maps.Copy(values, set.values)
	}
	for _, address := range own {
		for name := range v.routers[address] {
			for _, variable := range v.services[name] {
				if variable.router {
					seen := seenByRouter(net, own, variable.at(node.Name, zone).endpoints, variable.many)
					set(values, variable.name, backends(seen))
				}
			}
		}
	}
	return values
}

// set leaves a variable without backends out.
func set(values map[string]string, name, text string) {
	if delete(values, name); text != "" {
		values[name] = text
	}
}

// refresh reads what is stale; the caller holds the lock.
func (v *Values) refresh(view View, net scope) {
	if v.all {
		v.all = false
		v.services = map[types.NamespacedName][]variable{}
		v.zones, v.nodes = map[string]*valueSet{}, map[string]*valueSet{}
		v.routers = map[netip.Addr]map[types.NamespacedName]bool{}
		clear(v.stale)
		for _, service := range view.Services() {
			v.stale[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}] = true
		}
	}
	for name := range v.stale {
		v.replace(name, variablesOf(view, net, name))
		delete(v.stale, name)
	}
}

// zone is made of all services when its first node is built.
func (v *Values) zone(name string) *valueSet {
	if v.zones[name] == nil {
		v.zones[name] = newValueSet()
		for _, variables := range v.services {
			for _, variable := range variables {
				v.zones[name].add(variable, variable.in(name))
			}
		}
	}
	return v.zones[name]
}

// replace puts the variables of a service in the place of those that it had.
func (v *Values) replace(service types.NamespacedName, variables []variable) {
	for _, old := range v.services[service] {
		for zone, set := range v.zones {
			set.remove(old, old.in(zone))
		}
		for node, value := range old.nodes {
			if set := v.nodes[node]; set.remove(old, value) == 0 {
				delete(v.nodes, node)
			}
		}
		for _, address := range old.addressesSeen() {
			if delete(v.routers[address], service); len(v.routers[address]) == 0 {
				delete(v.routers, address)
			}
		}
	}
	if v.services[service] = variables; len(variables) == 0 {
		delete(v.services, service)
	}
	for _, fresh := range variables {
		for zone, set := range v.zones {
			set.add(fresh, fresh.in(zone))
		}
		for node, value := range fresh.nodes {
			if v.nodes[node] == nil {
				v.nodes[node] = newValueSet()
			}
			v.nodes[node].add(fresh, value)
		}
		for _, address := range fresh.addressesSeen() {
			if v.routers[address] == nil {
				v.routers[address] = map[types.NamespacedName]bool{}
			}
			v.routers[address][service] = true
		}
	}
}

// valueSet is variables with their values, of several services. These may share
// an address, whose variable is there as long as one of them has it.
type valueSet struct {
	values map[string]string
	shared map[netip.Addr]int
}

func newValueSet() *valueSet {
	return &valueSet{values: map[string]string{}, shared: map[netip.Addr]int{}}
}

func (s *valueSet) add(v variable, value chosen) {
	if value.text == "" {
		return
	}
	s.values[v.name] = value.text
	for _, address := range v.addresses {
		s.shared[address]++
		s.values[contract.AddressVariable(address)] = address.String()
	}
}

// remove gives the number of values that are left.
func (s *valueSet) remove(v variable, value chosen) int {
	if value.text == "" {
		return len(s.values)
	}
	delete(s.values, v.name)
	for _, address := range v.addresses {
		if s.shared[address]--; s.shared[address] == 0 {
			delete(s.shared, address)
			delete(s.values, contract.AddressVariable(address))
		}
	}
	return len(s.values)
}

// variable is one of a service's, with the backends that it stands for: on a node
// that has its own, else in a zone that has, else on all other nodes.
type variable struct {
	name string
	// addresses have a variable wherever this one has a value: those of IPv6.
	addresses []netip.Addr
	// router says that gateway routers use it; many, that one with some of its own
	// needs no others.
	router, many bool
	nodes, zones map[string]chosen
	rest         chosen
}

// chosen are endpoints and their text as OVN's backends; none where there is no value.
type chosen struct {
	endpoints []endpoint
	text      string
}

func choose(endpoints []endpoint) chosen {
	return chosen{endpoints: endpoints, text: backends(endpoints)}
}

// variablesOf are a service's: what is wrong with it is its own owner's to report.
func variablesOf(view View, net scope, name types.NamespacedName) []variable {
	s, err := readService(view, net, name)
	if s == nil || err != nil {
		return nil
	}
	if err := s.onFurther(view); err != nil || s.isSecondary() {
		return nil // load balancers of a secondary network have no variables
	}
	ports, err := s.ports(view)
	if err != nil {
		return nil
	}
	var out []variable
	seen := map[string]bool{}
	for _, port := range ports {
		for _, t := range slices.Concat(port.internal(), port.external()) {
			if !t.variable {
				continue
			}
			router := t.differsOnRouters() && t.scope == onRouters
			named := t.variableOf(t.selection, router)
			if !seen[named] {
				seen[named] = true
				out = append(out, t.read(named, router))
			}
		}
	}
	return out
}

// read chooses the endpoints of a variable for nodes and zones.
func (t target) read(name string, router bool) variable {
	v := variable{name: name, router: router, many: t.many && t.selection != selectLocal}
	if t.address.Is6() {
		for _, address := range append([]netip.Addr{t.address}, t.service.external...) {
			if address.Is6() {
				v.addresses = append(v.addresses, address)
			}
		}
	}
	switch t.selection {
	case selectLocal:
		v.nodes = perNode(t.endpoints)
	case selectHinted:
		v.nodes, v.zones = hint(forNodes).meantFor(t.endpoints), hint(forZones).meantFor(t.endpoints)
		v.rest = choose(usable(t.endpoints))
	default:
		v.rest = choose(usable(t.endpoints))
	}
	return v
}

// in is the value of nodes in a zone that have none of their own.
func (v variable) in(zone string) chosen {
	if value, ok := v.zones[zone]; ok {
		return value
	}
	return v.rest
}

func (v variable) at(node, zone string) chosen {
	if value, ok := v.nodes[node]; ok {
		return value
	}
	return v.in(zone)
}

// addressesSeen are those of the backends that a gateway router may have itself.
func (v variable) addressesSeen() []netip.Addr {
	if !v.router {
		return nil
	}
	var out []netip.Addr
	for _, values := range []map[string]chosen{v.nodes, v.zones, {"": v.rest}} {
		for _, value := range values {
			for _, e := range value.endpoints {
				out = append(out, e.address.Addr())
			}
		}
	}
	return out
}
