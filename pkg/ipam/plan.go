package ipam

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam/quota"
)

// Config is the address plan of a zone: disjoint networks, and at most one for
// each family except in Cluster, whose subnets of one family are used in order.
type Config struct {
	Cluster    []contract.Subnet
	Services   []netip.Prefix
	Join       []netip.Prefix
	Masquerade []netip.Prefix
	// Further are the networks beside the default one; nil: there are none.
	Further Further
	// SecondaryOnly says that another CNI plugin gives pods their default network: nothing is allocated for one.
	SecondaryOnly bool
}

// Further are the networks beside the default one, and what pods ask of them. Its methods may be called at once from
// several goroutines.
type Further interface {
	Networks
	// Requests are those of a pod on networks that exist.
	Requests(pod *corev1.Pod) []Request
	// Claims are the IPAMClaims for a network, in an order that stays.
	Claims(network string) []Claim
	// Locked says that a pod's namespace has a primary network, or is to have one: the default network only leads to the
	// pod's node.
	Locked(pod *corev1.Pod) bool
	NamespaceSubnets
}

// Networks are those beside the default one.
type Networks interface {
	Networks() []contract.Network
	// Network is nil where there is none of that name.
	Network(name string) *contract.Network
}

// NamespaceSubnets are beside the default network's subnets.
type NamespaceSubnets interface {
	NamespaceSubnets() []contract.NamespaceSubnet
	// SubnetOf is the one from which a pod gets its addresses; nil: those are of its node's subnet.
	SubnetOf(pod *corev1.Pod) *contract.NamespaceSubnet
}

// Claim is an IPAMClaim, which keeps a pod's addresses for the pods that come after it.
type Claim struct {
	// Owner is of kind IPAMClaim.
	Owner contract.Owner
	UID   types.UID
	// Network is its name.
	Network string
	// Addresses are those that its status says; none before its first pod.
	Addresses []netip.Addr
	// Refused says that its status has the reason why it has no addresses now.
	Refused bool
}

// Request is one attachment of a pod, the zero value for that on the default network.
type Request struct {
	contract.Attachment
	Network contract.Network
	// Resource is the device plugin's resource whose device becomes the interface; "": a veth.
	Resource string
	// IPAMClaim is nil for a pod that refers to none.
	IPAMClaim *Claim
	// Routes are added to those of the network where the pod has an address in the subnet of the next hop.
	Routes []contract.Route
	// Quota of the pod's namespace; nil: it has none, or the network is a primary one.
	Quota *quota.Quota
	// Locked is of the request on the default network: another network is the pod's primary one.
	Locked bool
	// Subnet is of the request on the default network: the pod's namespace has subnets of its own; nil: it has none.
	Subnet *contract.NamespaceSubnet
}

// subject is a pod with what its annotation says, which is parsed once.
type subject struct {
	*corev1.Pod
	said *contract.Values
}

func newSubject(pod *corev1.Pod) subject {
	return subject{pod, contract.NewValues(pod.Annotations[contract.PodNetworksKey])}
}

// requests are what a pod asks for, the default network first; none for a pod that does not run on pod networks.
func (c Config) requests(pod subject) []Request {
	if !contract.WantsNetwork(pod.Pod) {
		return nil
	}
	requests := []Request{{}}
	if c.Further != nil {
		requests[0].Locked, requests[0].Subnet = c.Further.Locked(pod.Pod), c.Further.SubnetOf(pod.Pod)
		for _, r := range c.Further.Requests(pod.Pod) {
			if !isElsewhere(pod, r) {
				requests = append(requests, r)
			}
		}
	}
	if c.SecondaryOnly {
		return requests[1:]
	}
	return requests
}

// isElsewhere says that a pod has started with another network than the one that its NetworkAttachmentDefinition names now. It
// has nothing on this one.
func isElsewhere(pod subject, r Request) bool {
	if len(pod.Status.PodIPs) == 0 {
		return false
	}
	has, err := pod.said.PodNetwork(attachmentOwner(pod.Pod, r).NetworkKey())
	return err == nil && has != nil && has.Network != "" && has.Network != r.Network.Name
}

// layer3 are the plans of all networks of which each node has a part, by name.
func (c Config) layer3() map[string]Config {
	plans := map[string]Config{}
	if !c.SecondaryOnly {
		plans[""] = c
	}
	if c.Further == nil {
		return plans
	}
	for _, network := range c.Further.Networks() {
		if network.Topology == contract.Layer3 {
			plans[network.Name] = of(network, c.Services)
		}
	}
	return plans
}

// of is the plan of a further network. Services are reached through a primary one.
func of(network contract.Network, services []netip.Prefix) Config {
	plan := Config{Cluster: network.Subnets, Join: network.JoinSubnets}
	if network.IsPrimary() {
		plan.Services = services
	}
	return plan
}

// Defaults is OVN-Kubernetes' plan for clusters on one machine, IPv4 only.
func Defaults() Config {
	return Config{
		Cluster:    []contract.Subnet{{Prefix: netip.MustParsePrefix("10.244.0.0/16"), NodeBits: 24}},
		Services:   []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		Join:       []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16"), netip.MustParsePrefix("fd98::/64")},
		Masquerade: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/17"), netip.MustParsePrefix("fd69::/112")},
	}
}

// Prefixes of the cluster subnets, for builders that do not care for the parts.
func (c Config) Prefixes() []netip.Prefix {
	out := make([]netip.Prefix, len(c.Cluster))
	for i, subnet := range c.Cluster {
		out[i] = subnet.Prefix
	}
	return out
}

// Network is the cluster's default network.
func (c Config) Network() contract.Network {
	return contract.Network{
		Role: contract.RolePrimary, Topology: contract.Layer3, Subnets: c.Cluster, JoinSubnets: c.JoinSubnets(),
		PhysicalNetwork: contract.PhysicalNetwork,
	}
}

// Zone is what all networks of the zone share.
func (c Config) Zone() contract.Zone {
	z := contract.Zone{ServiceSubnets: c.Services, MasqueradeSubnets: c.Masquerade, NamespaceSubnets: namespaceSubnets(c)}
	z.DefaultSubnets = slices.Concat(c.Prefixes(), contract.PrefixesOf(z.NamespaceSubnets), c.JoinSubnets())
	return z
}

func namespaceSubnets(c Config) []contract.NamespaceSubnet {
	if c.Further == nil {
		return nil
	}
	return c.Further.NamespaceSubnets()
}

// Purposes are the subnets of the plan by what they are for; none without a default network.
func (c Config) Purposes() map[string][]netip.Prefix {
	out := map[string][]netip.Prefix{}
	if c.SecondaryOnly {
		return out
	}
	for _, n := range c.networks() {
		out[n.name] = append(out[n.name], n.prefix)
	}
	return out
}

// JoinSubnets are the join subnets of the families that the cluster subnets have.
func (c Config) JoinSubnets() []netip.Prefix {
	var out []netip.Prefix
	for _, join := range c.Join {
		if _, ok := contract.FamilyOf(join.Addr()).Pick(c.Prefixes()); ok {
			out = append(out, join)
		}
	}
	return out
}

// ParseClusterSubnets reads a list such as "10.244.0.0/16/24,fd00:10:244::/48/64".
// Without its last part an entry gives each node a /24, or a /64 of IPv6.
func ParseClusterSubnets(list string) ([]contract.Subnet, error) {
	var out []contract.Subnet
	for entry := range strings.SplitSeq(list, ",") {
		subnet, err := parseClusterSubnet(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("cluster subnet %q: %w", entry, err)
		}
		out = append(out, subnet)
	}
	return out, nil
}

func parseClusterSubnet(entry string) (contract.Subnet, error) {
	var nodeBits string
	if parts := strings.Split(entry, "/"); len(parts) == 3 {
		entry, nodeBits = parts[0]+"/"+parts[1], parts[2]
	}
	prefix, err := parsePrefix(entry)
	if err != nil {
		return contract.Subnet{}, err
	}
	subnet := contract.Subnet{Prefix: prefix, NodeBits: 24}
	if prefix.Addr().Is6() {
		subnet.NodeBits = 64
	}
	if nodeBits != "" {
		if subnet.NodeBits, err = strconv.Atoi(nodeBits); err != nil {
			return contract.Subnet{}, fmt.Errorf("node prefix length %q is not a number", nodeBits)
		}
	}
	return subnet, validate(subnet)
}

// validate wants parts of at least eight addresses: five are not for pods.
func validate(s contract.Subnet) error {
	shortest, longest := max(s.Bits(), 1), s.Addr().BitLen()-3
	if s.NodeBits < shortest || s.NodeBits > longest {
		return fmt.Errorf("node prefix length %d is not between %d and %d", s.NodeBits, shortest, longest)
	}
	return nil
}

// ParsePrefixes reads a list such as "10.96.0.0/16,fd00:10:96::/112"; "" is empty.
func ParsePrefixes(list string) ([]netip.Prefix, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var out []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		prefix, err := parsePrefix(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", entry, err)
		}
		out = append(out, prefix)
	}
	return out, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return prefix, errors.New("not in the form address/length")
	}
	if prefix.Addr().Is4In6() {
		return prefix, errors.New("an IPv4 address in IPv6 notation")
	}
	if prefix != prefix.Masked() {
		return prefix, fmt.Errorf("not a network address, which would be %s", prefix.Masked())
	}
	return prefix, nil
}

// Validate refuses a plan whose networks overlap or do not fit together.
func (c Config) Validate() error {
	if len(c.Cluster) == 0 {
		return errors.New("address plan: no cluster subnet")
	}
	for _, subnet := range c.Cluster {
		if err := validate(subnet); err != nil {
			return fmt.Errorf("address plan: cluster subnet %s: %w", subnet.Prefix, err)
		}
		if _, ok := contract.FamilyOf(subnet.Addr()).Pick(c.Join); !ok {
			return fmt.Errorf("address plan: cluster subnet %s has no join subnet of its family", subnet.Prefix)
		}
	}
	networks := c.networks()
	for i, a := range networks {
		for _, b := range networks[:i] {
			if a.prefix.Overlaps(b.prefix) {
				return fmt.Errorf("address plan: %s subnet %s overlaps %s subnet %s", b.name, b.prefix, a.name, a.prefix)
			}
			if a.name == b.name && a.name != clusterName && sameFamily(a.prefix, b.prefix) {
				return fmt.Errorf("address plan: two %s subnets of one family: %s and %s", a.name, b.prefix, a.prefix)
			}
		}
	}
	return nil
}

const clusterName = "cluster"

type network struct {
	name   string
	prefix netip.Prefix
}

func (c Config) networks() []network {
	var out []network
	add := func(name string, prefixes []netip.Prefix) {
		for _, prefix := range prefixes {
			out = append(out, network{name, prefix})
		}
	}
	add(clusterName, c.Prefixes())
	add("service", c.Services)
	add("join", c.Join)
	add("masquerade", c.Masquerade)
	return out
}

// maxID is the largest node id: it numbers the node in every join subnet.
func (c Config) maxID() int {
	last := math.MaxInt32
	for _, join := range c.JoinSubnets() {
		last = min(last, contract.MaxNodeID(join))
	}
	return last
}

// part is the node subnet that addr is in, whether a node has it or not.
func (c Config) part(addr netip.Addr) (netip.Prefix, bool) {
	for _, subnet := range c.Cluster {
		if subnet.Contains(addr) {
			return netip.PrefixFrom(addr, subnet.NodeBits).Masked(), true
		}
	}
	return netip.Prefix{}, false
}

// checkNode refuses a node whose own address lies in a subnet of the plan: pods could not reach the node there.
func (c Config) checkNode(node *corev1.Node) error {
	for _, address := range node.Status.Addresses {
		addr, err := netip.ParseAddr(address.Address)
		if err != nil || address.Type != corev1.NodeInternalIP {
			continue
		}
		for _, n := range c.networks() {
			if n.prefix.Contains(addr) {
				return fmt.Errorf("node address %s lies in the %s subnet %s", addr, n.name, n.prefix)
			}
		}
	}
	return nil
}
