package node

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// ManagementInterface is the node's own interface in its pod subnet.
const ManagementInterface = "ovn-k8s-mp0"

// Config is what all features of a node have to know.
type Config struct {
	Node string
	// Network is the default network. Its address families are the cluster's.
	Network contract.Network
	// Zone may have no service subnets: the node's own processes do not reach services then.
	Zone contract.Zone
	// Forwards says that the host forwards packets of others from its uplink back to the uplink on purpose.
	Forwards bool
}

// IsMasquerade reports whether addr is a masquerade address.
func (c Config) IsMasquerade(addr netip.Addr) bool {
	return slices.ContainsFunc(c.Zone.MasqueradeSubnets, func(subnet netip.Prefix) bool { return subnet.Contains(addr) })
}

// Deps is what all features of a node act on.
type Deps struct {
	Netns Netns
	DB    DB
	// Node gives the Node object, nil until it is synced.
	Node func() *corev1.Node
	// Annotate writes annotations of the Node, where they differ.
	Annotate func(ctx context.Context, node *corev1.Node, annotations map[string]string) error
	// Probes reach, by name, what the node must not lose by a change.
	Probes map[string]func(ctx context.Context) error
	Logger *slog.Logger
	// Registerer takes the loops' metrics.
	Registerer prometheus.Registerer
}

// Host is the host, its database and the Node object: what a state is observed of and
// what steps are applied to.
type Host struct {
	Config Config
	Deps   Deps

	conflicts atomic.Pointer[[]string]
	largest   atomic.Int64
}

// State is what planners of all features look at, as it was at one moment.
type State struct {
	Links map[string]netdev.Link
	// Addrs are those of global scope, by link.
	Addrs map[string][]netip.Prefix
	// Masquerade are the addresses of the masquerade subnets, by link; they are
	// not among Addrs.
	Masquerade map[string][]netip.Prefix
	// LinkLocal are further link-local addresses of IPv4 with scope global, by link; they are not among Addrs. An
	// administrator or an add-on gave them.
	LinkLocal map[string][]netip.Prefix
	// Routes are all but the kernel's own.
	Routes []netdev.Route
	// Sysctls are those of links, by key, that exist.
	Sysctls map[string]string
	// Ours names the ports that the agent has in the database.
	Ours map[string]bool
	// Subnets are the node's, of its annotation; none until the Node is synced.
	Subnets []netip.Prefix
	// Namespaces are the subnets of namespaces beside the cluster's, of the same Node.
	Namespaces []contract.NamespaceSubnet
}

// PodSubnets are all subnets of pods on the default network.
func (s State) PodSubnets(network contract.Network) []netip.Prefix {
	return append(network.Prefixes(), contract.PrefixesOf(s.Namespaces)...)
}

// Netns is what is needed of the node's network namespace; Local is one.
type Netns interface {
	Observer
	LinkChanger
	AddressChanger
}

// Observer reads.
type Observer interface {
	Links() ([]netdev.Link, error)
	// AllAddrs gives the addresses of all links, by the index of the link.
	AllAddrs() (map[int][]netip.Prefix, error)
	Routes(link string) ([]netdev.Route, error)
	SysctlValue(key string) (string, error)
	Watch(ctx context.Context) (<-chan netdev.Event, error)
}

// LinkChanger sets up links.
type LinkChanger interface {
	SetLink(name string, s netdev.Settings) error
	MoveLink(m netdev.Move) error
	Sysctl(key, value string) error
	LeaveDatapath(link string) error
}

// AddressChanger moves what links carry.
type AddressChanger interface {
	ReplaceAddr(link string, prefix netip.Prefix, o netdev.AddrOptions) error
	DeleteAddr(link string, prefix netip.Prefix) error
	ReplaceRoute(r netdev.Route) error
	DeleteRoute(r netdev.Route) error
	ReplaceNeighbor(e netdev.Neighbor) error
}

// DB is the node's Open_vSwitch database; *ovsdb.DB is one.
type DB interface {
	Replica
	Commit(ctx context.Context, wants ...ovsdb.Want) (ovsdb.Result, error)
	EditKeys(ctx context.Context, table, column string, edit func(have map[string]string) map[string]string) error
}

// Replica is what a DB knows.
type Replica interface {
	WaitRow(ctx context.Context, table, owner, id string, ok func(row any) bool) error
	Rows(owner string) []ovsdb.Row
	Table(name string) []any
	Members(table, column string) map[string][]any
}
