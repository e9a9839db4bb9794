package lb

import (
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// ErrRefused is wrapped by the error of an owner that may not have any rows, not those either that it has.
var ErrRefused = errors.New("refused")

// View is the facts that the builders read; a method returns nil for what is not there.
type View interface {
	// Zone is what all networks of the zone share.
	Zone() contract.Zone
	Node(name string) *corev1.Node
	Pods
	Services
	Primaries
}

// Services is the facts of services.
type Services interface {
	Service(namespace, name string) *corev1.Service
	EndpointSlices(namespace, service string) []*discoveryv1.EndpointSlice
	// Services is every service, in no order.
	Services() []*corev1.Service
	// ServiceValues are those of the services of this View.
	ServiceValues() *Values
	Gateways
}

// Gateways is what services have to know of the gateways of all nodes.
type Gateways interface {
	// GatewayAddresses are those at which services answer on a node, at most one of
	// each family.
	GatewayAddresses(*corev1.Node) []netip.Addr
	// NodeAddresses are those of all nodes in a family; none, and false, when they are
	// too many for a frontend at each.
	NodeAddresses(contract.Family) ([]netip.Addr, bool)
	// IsHostAddress says that a node is known by an address, also by its status.
	IsHostAddress(netip.Addr) bool
	// ServiceSubnets are the ranges of services that the API says.
	ServiceSubnets() []netip.Prefix
	// OnNodes says that a slice has an endpoint at an address of a node, and whether
	// there are many such endpoints behind its ports.
	OnNodes(*discoveryv1.EndpointSlice) (on, many bool)
}

// Primaries are the networks with gateways, most of which are the primary ones of namespaces.
type Primaries interface {
	// NetworksWithGateway are all of them, in no order.
	NetworksWithGateway() []contract.Network
	// IsRouted says that load balancers of gateway routers lead to the subnets of a primary network.
	IsRouted(network string) bool
	// IsForeign says that load balancers of gateway routers would lead packets for an address to a primary network other
	// than the one of that name, "" for the default network.
	IsForeign(network string, addr netip.Addr) bool
	// NetworkOf is that of a service with the key of its NetworkAttachmentDefinition; nil: the default network is. The error
	// says why the network that a service asks for cannot have it.
	NetworkOf(service *corev1.Service) (nad string, network *contract.Network, err error)
	// SharedServices are the services of the default network that pods of primary networks reach.
	SharedServices() []*corev1.Service
}

// columnLoadBalancer is the set of load balancers of a group, switch or router.
const columnLoadBalancer = "load_balancer"

// scope is what the rows of a network have in common: the network, and the zone that it is in.
type scope struct {
	contract.Network
	contract.Zone
}
