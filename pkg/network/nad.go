package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// NAD is what is read of a NetworkAttachmentDefinition.
type NAD struct {
	// Key is namespace/name.
	Key string
	// Config is spec.config: a CNI netconf, or a list of one, as JSON.
	Config      string
	Annotations map[string]string
	// Created orders the NADs of a network: the oldest decides.
	Created time.Time
	UID     types.UID
	// Controller is the object that the NAD says it is made from, by ControllerUID; "": none of the kinds that stand for networks.
	Controller    contract.Owner
	ControllerUID types.UID
}

// ReadNAD gives what is read of a NAD in the API.
func ReadNAD(object *unstructured.Unstructured) *NAD {
	config, _, _ := unstructured.NestedString(object.Object, "spec", "config")
	nad := &NAD{
		Key: object.GetNamespace() + "/" + object.GetName(), Config: config, Annotations: object.GetAnnotations(),
		Created: object.GetCreationTimestamp().Time, UID: object.GetUID(),
	}
	if owner, uid, ok := render.ControllerOf(object); ok {
		nad.Controller, nad.ControllerUID = owner, uid
	}
	return nad
}

// netconf has the keys of OVN-Kubernetes.
type netconf struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Plugins  []netconf `json:"plugins"`
	NADName  string    `json:"netAttachDefName"`
	Topology string    `json:"topology"`
	Role     string    `json:"role"`
	MTU      int       `json:"mtu"`
	addressing
	layer2Keys
	localnetKeys
	podKeys
	otherKeys
}

type addressing struct {
	Subnets        string `json:"subnets"`
	ExcludeSubnets string `json:"excludeSubnets"`
	JoinSubnet     string `json:"joinSubnet"`
}

// layer2Keys are for primary networks; DefaultGateways also for secondary ones.
type layer2Keys struct {
	ReservedSubnets string `json:"reservedSubnets"`
	InfraSubnets    string `json:"infrastructureSubnets"`
	DefaultGateways string `json:"defaultGatewayIPs"`
}

type localnetKeys struct {
	VLAN            int    `json:"vlanID"`
	PhysicalNetwork string `json:"physicalNetworkName"`
}

// podKeys say what pods may have and do.
type podKeys struct {
	AllowPersistent bool         `json:"allowPersistentIPs"`
	PortSecurity    string       `json:"portSecurity"`
	DNS             cnitypes.DNS `json:"dns"`
}

// The values of portSecurity: of what a pod sends and gets, its addresses with its MAC are checked, or the MAC alone.
const (
	securityIP  = "ip"
	securityMAC = "mac"
)

// otherKeys must be absent, or have one value.
type otherKeys struct {
	Transport string          `json:"transport"`
	IPAM      json.RawMessage `json:"ipam"`
}

// errForeign says that a NAD is another CNI plugin's, or of the default network: such a NAD is errDefault.
var (
	errForeign = errors.New("not a further network of ours")
	errDefault = fmt.Errorf("%w: the default network", errForeign)
)

// Parse gives the network of a NAD. The error is errForeign for a NAD that is not about a further network of ours.
func Parse(nad NAD) (contract.Network, error) {
	conf, err := readNetconf(nad.Config)
	if err != nil {
		return contract.Network{}, err
	}
	switch {
	case conf.Type != contract.PluginType:
		return contract.Network{}, errForeign
	case conf.Topology == "":
		return contract.Network{}, errDefault
	case conf.NADName != nad.Key:
		return contract.Network{}, fmt.Errorf("netAttachDefName is %.320q, and must be %q", conf.NADName, nad.Key)
	}
	if err := checkLengths(conf, nad.Annotations); err != nil {
		return contract.Network{}, err
	}
	network, err := conf.network()
	if err == nil {
		err = conf.lead(&network, nad.Annotations[contract.GatewayKey])
	}
	if err == nil {
		err = check(conf, network)
	}
	return network, err
}

// readNetconf reads a netconf, or a list of one plugin, whose name is the list's.
func readNetconf(text string) (netconf, error) {
	var conf netconf
	if strings.TrimSpace(text) == "" {
		return conf, errors.New("spec.config is empty")
	}
	if err := json.Unmarshal([]byte(text), &conf); err != nil {
		return conf, fmt.Errorf("spec.config: %.200s", err.Error())
	}
	if len(conf.Plugins) == 0 {
		return conf, nil
	}
	ours := false
	for _, plugin := range conf.Plugins {
		ours = ours || plugin.Type == contract.PluginType
	}
	switch {
	case conf.Type != "":
		return conf, errors.New("spec.config has type and plugins: give one of them")
	case !ours:
		return conf, nil
	case len(conf.Plugins) > 1:
		return conf, fmt.Errorf("spec.config has %d plugins: %s cannot be chained with others", len(conf.Plugins), contract.PluginType)
	}
	one := conf.Plugins[0]
	one.Name = conf.Name
	return one, nil
}

func (c netconf) network() (contract.Network, error) {
	n := contract.Network{
		Name: c.Name, Role: contract.Role(c.Role), Topology: contract.Topology(c.Topology), MTU: c.MTU, VLAN: c.VLAN,
		PhysicalNetwork: c.PhysicalNetwork, PodRules: contract.PodRules{Persistent: c.AllowPersistent, Forward: c.PortSecurity == securityMAC},
	}
	if !c.DNS.IsEmpty() {
		n.DNS = &c.DNS
	}
	if n.Role == "" {
		n.Role = contract.RoleSecondary
	}
	if n.Topology == contract.Localnet && n.PhysicalNetwork == "" {
		n.PhysicalNetwork = n.Name
	}
	var err error
	if n.Subnets, err = parseSubnets(c.Subnets, n.Topology); err != nil {
		return n, fmt.Errorf("subnets: %w", err)
	}
	if n.Excluded, err = parsePrefixes(c.ExcludeSubnets); err != nil {
		return n, fmt.Errorf("excludeSubnets: %w", err)
	}
	if n.Role == contract.RolePrimary {
		if c.JoinSubnet == "" {
			c.JoinSubnet = "100.65.0.0/16,fd99::/64"
		}
		joins, err := parsePrefixes(c.JoinSubnet)
		if err != nil {
			return n, fmt.Errorf("joinSubnet: %w", err)
		}
		for _, family := range n.Families() {
			if join, ok := family.Pick(joins); ok {
				n.JoinSubnets = append(n.JoinSubnets, join)
			}
		}
		if n.Topology == contract.Layer2 {
			return n, c.reserve(&n)
		}
		return n, nil
	}
	gateways, err := c.gateways()
	for _, gateway := range gateways {
		if err = errors.Join(err, reserveGateway(&n, gateway)); err != nil {
			break
		}
	}
	return n, err
}

// reserveGateway sets a router's address on the switch of a secondary network, which no pod gets there.
func reserveGateway(n *contract.Network, gateway netip.Addr) error {
	at := slices.IndexFunc(n.Subnets, func(s contract.Subnet) bool { return s.Contains(gateway) })
	switch {
	case at < 0:
		return fmt.Errorf("defaultGatewayIPs: %s is in none of the subnets", gateway)
	case slices.ContainsFunc(n.Gateways, func(other netip.Prefix) bool { return other.Contains(gateway) }):
		return fmt.Errorf("defaultGatewayIPs: %s is the second of its subnet", gateway)
	}
	n.Gateways = append(n.Gateways, netip.PrefixFrom(gateway, n.Subnets[at].Bits()))
	exclude(n, gateway)
	return nil
}

// exclude keeps an address from pods.
func exclude(n *contract.Network, addr netip.Addr) {
	if !slices.ContainsFunc(n.Excluded, func(part netip.Prefix) bool { return part.Contains(addr) }) {
		n.Excluded = append(n.Excluded, netip.PrefixFrom(addr, addr.BitLen()))
	}
}

func (c netconf) gateways() (chosen []netip.Addr, err error) {
	for _, text := range split(c.DefaultGateways) {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("defaultGatewayIPs: %.100q is not an IP address", text)
		}
		chosen = append(chosen, addr)
	}
	return chosen, nil
}

// lead gives a secondary network the exits that its NAD names. Each half of all addresses is an exit of its own, so that
// the pods' default route stays beside them.
func (c netconf) lead(n *contract.Network, list string) error {
	exits, err := parsePrefixes(list)
	switch {
	case err != nil:
		return fmt.Errorf("annotation %s: %w", contract.GatewayKey, err)
	case len(exits) == 0 || n.IsPrimary():
		return nil
	case n.Topology == contract.Localnet || len(n.Subnets) == 0:
		return fmt.Errorf("annotation %s needs topology layer3 or layer2, and subnets", contract.GatewayKey)
	}
	for _, exit := range exits {
		if exit.Bits() > 0 {
			n.Exits = append(n.Exits, exit)
			continue
		}
		upper := exit.Addr().AsSlice()
		upper[0] = 0x80
		addr, _ := netip.AddrFromSlice(upper)
		n.Exits = append(n.Exits, netip.PrefixFrom(exit.Addr(), 1), netip.PrefixFrom(addr, 1))
	}
	if n.Topology == contract.Layer2 {
		n.Gateways = nil // reserve takes the chosen ones, too, and gives each subnet one
		return c.reserve(n)
	}
	return nil
}

// reserve sets the router's addresses on the switch of a network of topology layer2 with a gateway, and what no pod gets there:
// these, the second address, and what the netconf reserves. In OVN-Kubernetes nodes have the second address.
func (c netconf) reserve(n *contract.Network) error {
	infra, err := parsePrefixes(c.InfraSubnets)
	if err != nil {
		return fmt.Errorf("infrastructureSubnets: %w", err)
	}
	n.Excluded = append(n.Excluded, infra...)
	if n.Reserved, err = parsePrefixes(c.ReservedSubnets); err != nil {
		return fmt.Errorf("reservedSubnets: %w", err)
	}
	chosen, err := c.gateways()
	if err != nil {
		return err
	}
	for _, part := range infra {
		chosen = append(chosen, firstOf(n, part)) // after those of defaultGatewayIPs, the first of a subnet counts
	}
	for _, subnet := range n.Prefixes() {
		first, second := contract.AddressAt(subnet, contract.RouterOffset), contract.AddressAt(subnet, contract.ManagementOffset)
		if at := slices.IndexFunc(chosen, subnet.Contains); at >= 0 && chosen[at] == second {
			first, second = second, first
		} else if at >= 0 {
			first = chosen[at]
		}
		n.Gateways = append(n.Gateways, netip.PrefixFrom(first, subnet.Bits()))
		exclude(n, first)
		exclude(n, second)
	}
	return nil
}

// firstOf is the first address of a part of the subnets that an interface may have.
func firstOf(n *contract.Network, part netip.Prefix) netip.Addr {
	addr := part.Masked().Addr()
	if slices.ContainsFunc(n.Prefixes(), func(subnet netip.Prefix) bool { return subnet.Masked().Addr() == addr }) {
		return addr.Next()
	}
	return addr
}

// parseSubnets reads cidr or, for layer3, cidr/length, where length is that of a node's part: 24 or 64 if it is not
// there.
func parseSubnets(list string, topology contract.Topology) ([]contract.Subnet, error) {
	var out []contract.Subnet
	for _, entry := range split(list) {
		text, bits := entry, ""
		if parts := strings.Split(entry, "/"); len(parts) == 3 && topology == contract.Layer3 {
			text, bits = parts[0]+"/"+parts[1], parts[2]
		}
		prefix, err := parsePrefix(text)
		if err != nil {
			return nil, err
		}
		subnet := contract.Subnet{Prefix: prefix, NodeBits: prefix.Bits()}
		if topology == contract.Layer3 {
			if subnet.NodeBits, err = nodeBits(prefix, bits); err != nil {
				return nil, fmt.Errorf("%.100q: %w", entry, err)
			}
		}
		out = append(out, subnet)
	}
	return out, nil
}

func nodeBits(prefix netip.Prefix, text string) (int, error) {
	bits := 24
	if prefix.Addr().Is6() {
		bits = 64
	}
	if text != "" {
		if _, err := fmt.Sscanf(text, "%d", &bits); err != nil || fmt.Sprint(bits) != text {
			return 0, fmt.Errorf("%.100q is not the length of a node's part", text)
		}
	}
	if longest := prefix.Addr().BitLen() - 3; bits < max(1, prefix.Bits()) || bits > longest {
		return 0, fmt.Errorf("a node's part of length %d does not fit between %d and %d", bits, max(1, prefix.Bits()), longest)
	}
	return bits, nil
}

func parsePrefixes(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, entry := range split(list) {
		prefix, err := parsePrefix(entry)
		if err != nil {
			return nil, err
		}
		out = append(out, prefix)
	}
	return out, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() || prefix.Addr().Zone() != "" {
		return prefix, fmt.Errorf("%.100q is not a subnet in the form address/length", text)
	}
	return prefix.Masked(), nil
}

func split(list string) (entries []string) {
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}
