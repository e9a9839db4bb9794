package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// Annotations of OVN-Kubernetes that users, tools and our own processes share.
// Keys, shapes and spelling are its API.
const (
	// NodeSubnetsKey holds {"default":["10.244.1.0/24"]}; controller to agents.
	NodeSubnetsKey = "k8s.ovn.org/node-subnets"
	// NodeIDKey holds a decimal number from 2, unique in the cluster; controller.
	// It numbers the node in the join subnet, where the cluster router has 1.
	NodeIDKey = "k8s.ovn.org/node-id"
	// NodeChassisIDKey holds the OVS system-id; agent to controller.
	NodeChassisIDKey = "k8s.ovn.org/node-chassis-id"
	// NodeEncapIPsKey holds ["172.18.0.3"]; agent to controller.
	NodeEncapIPsKey = "k8s.ovn.org/node-encap-ips"
	// NodePrimaryAddressKey holds {"ipv4":"172.18.0.3/16","ipv6":""}; agent.
	NodePrimaryAddressKey = "k8s.ovn.org/node-primary-ifaddr"
	// HostCIDRsKey holds ["172.18.0.3/16"]: all addresses of the node; agent.
	HostCIDRsKey = "k8s.ovn.org/host-cidrs"
	// GatewayConfigKey holds a GatewayConfig for each network; agent to controller.
	GatewayConfigKey = "k8s.ovn.org/l3-gateway-config"
	// NodeMTUKey holds "1442": how long packets from outside to pods may be; "":
	// that is not looked at. Agent to controller.
	NodeMTUKey = "ovn-offload.io/gateway-mtu"
	// DeletionTaint is a taint: the cluster autoscaler removes the node.
	DeletionTaint = "ToBeDeletedByClusterAutoscaler"
	// CordonedKey names the OffloadPolicy for which the controller has cordoned a Node.
	CordonedKey = "ovn-offload.io/cordoned-for"
	// GatewayMTUSupportKey holds "false" where that must not be looked at; user, on
	// a Node.
	GatewayMTUSupportKey = "k8s.ovn.org/gateway-mtu-support"
	// PodNetworksKey holds a PodNetwork for each network; controller to agents.
	PodNetworksKey = "k8s.ovn.org/pod-networks"
	// ConfigHashKey holds the UID that the kubelet gave to a static pod; kubelet, on
	// its mirror pod.
	ConfigHashKey = "kubernetes.io/config.hash"
	// LeaderVersionKey holds "v0.1.0 IDENTITY", of the process that wrote it; controller, on the Lease for which it leads.
	LeaderVersionKey = "ovn-offload.io/leader-version"
	// ACLLoggingKey holds {"deny":"alert","allow":"notice"}; user, on a Namespace.
	ACLLoggingKey = "k8s.ovn.org/acl-logging"
	// MaxAttachmentsKey holds a decimal number: how many attachments to secondary networks the pods may have together;
	// user, on a Namespace.
	MaxAttachmentsKey = "ovn-offload.io/max-attachments"
)

// MAC is a hardware address that is text in JSON.
type MAC net.HardwareAddr

func (m MAC) String() string { return net.HardwareAddr(m).String() }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it takes 48-bit addresses only.
func (m *MAC) UnmarshalText(text []byte) error {
	hw, err := net.ParseMAC(string(text))
	if err != nil {
		return err
	}
	if len(hw) != 6 {
		return fmt.Errorf("address %s: %q is not a 48-bit MAC", text, text)
	}
	*m = MAC(hw)
	return nil
}

// Route is one route of a pod: Dest by NextHop.
type Route struct {
	Dest    netip.Prefix `json:"dest"`
	NextHop netip.Addr   `json:"nextHop"`
}

// PodNetwork is the value of PodNetworksKey for one network. The singular
// fields repeat the first address for single-stack readers: IPAddress and
// GatewayIP are set when there is exactly one.
type PodNetwork struct {
	Addresses []netip.Prefix `json:"ip_addresses"`
	MAC       MAC            `json:"mac_address"`
	Gateways  []netip.Addr   `json:"gateway_ips,omitempty"`
	Routes    []Route        `json:"routes,omitempty"`
	IPAddress *netip.Prefix  `json:"ip_address,omitempty"`
	GatewayIP *netip.Addr    `json:"gateway_ip,omitempty"`
	TunnelID  int            `json:"tunnel_id,omitempty"`
	Role      string         `json:"role,omitempty"`
	Further
}

// Further is our own addition for networks other than the default one: an agent makes the interface from the annotation
// alone.
type Further struct {
	// Interface is its name in the pod.
	Interface string `json:"interface,omitempty"`
	// Network is the network's name.
	Network string `json:"network,omitempty"`
	// Owner is the network's Owner; "" in annotations of earlier releases.
	Owner apitypes.UID `json:"network_owner,omitempty"`
	// MTU of the interface, 0: that of the default network.
	MTU int `json:"mtu,omitempty"`
	// PhysicalNetwork is one to which the node must have a bridge.
	PhysicalNetwork string `json:"physical_network,omitempty"`
	// DNS is that of the network configuration, for NetworkStatusKey.
	DNS *types.DNS `json:"dns,omitempty"`
	// Resource is the device plugin's resource whose device becomes the interface; "": a veth.
	Resource string `json:"resource,omitempty"`
}

// GatewayConfig is the value of GatewayConfigKey for one network. Mode
// "disabled" has no other field.
type GatewayConfig struct {
	Mode           string         `json:"mode"`
	Bridge         string         `json:"bridge-id,omitempty"`
	Interface      string         `json:"interface-id,omitempty"`
	MAC            MAC            `json:"mac-address,omitempty"`
	Addresses      []netip.Prefix `json:"ip-addresses,omitempty"`
	Address        *netip.Prefix  `json:"ip-address,omitempty"`
	NextHops       []netip.Addr   `json:"next-hops,omitempty"`
	NextHop        *netip.Addr    `json:"next-hop,omitempty"`
	NodePortEnable string         `json:"node-port-enable,omitempty"`
	VLANID         string         `json:"vlan-id,omitempty"`
	// Routes are the host's beside the default route, MaxGatewayRoutes at most. Ours.
	Routes []GatewayRoute `json:"routes,omitempty"`
	SecondGateway
}

// GatewayRoute leads a node's pods to a network by a router of the uplink's network.
type GatewayRoute struct {
	Dest    netip.Prefix `json:"dest"`
	NextHop netip.Addr   `json:"next-hop"`
}

// MaxGatewayRoutes is the number of routes of a node that its pods use.
const MaxGatewayRoutes = 64

// SecondGateway is the way out by a second external bridge, beside the first in
// GatewayConfigKey; without an Interface there is none.
type SecondGateway struct {
	Interface string         `json:"exgw-interface-id,omitempty"`
	MAC       MAC            `json:"exgw-mac-address,omitempty"`
	Addresses []netip.Prefix `json:"exgw-ip-addresses,omitempty"`
}

// PrimaryAddress is the value of NodePrimaryAddressKey; "" where the node has
// no address of the family.
type PrimaryAddress struct {
	IPv4 string `json:"ipv4"`
	IPv6 string `json:"ipv6"`
}

// PrimaryAddressOf has the last address of each family.
func PrimaryAddressOf(addrs []netip.Prefix) (p PrimaryAddress) {
	for _, addr := range addrs {
		if IPv4.Has(addr.Addr()) {
			p.IPv4 = addr.String()
		} else {
			p.IPv6 = addr.String()
		}
	}
	return p
}

// ParseNodeSubnets reads NodeSubnetsKey for network. The legacy form, a string
// in place of the list, is accepted. A network that is not named has no subnet.
func ParseNodeSubnets(value, network string) ([]netip.Prefix, error) {
	return NewValues(value).NodeSubnets(network)
}

func parseNodeSubnets(raw json.RawMessage, network string) (list []netip.Prefix, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) {
		var one netip.Prefix
		err = json.Unmarshal(raw, &one)
		list = []netip.Prefix{one}
	} else {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("subnets of network %q: %w", network, err)
	}
	return list, nil
}

// ParsePodNetwork reads PodNetworksKey for network; nil when it is not named.
func ParsePodNetwork(value, network string) (*PodNetwork, error) {
	return NewValues(value).PodNetwork(network)
}

func parsePodNetwork(raw json.RawMessage, network string) (*PodNetwork, error) {
	var pn PodNetwork
	if err := json.Unmarshal(raw, &pn); err != nil {
		return nil, fmt.Errorf("pod network %q: %w", network, err)
	}
	return &pn, nil
}

// ParseGatewayConfig reads GatewayConfigKey for network; nil when it is not named.
func ParseGatewayConfig(value, network string) (*GatewayConfig, error) {
	raw, err := networkValue(value, network)
	if raw == nil || err != nil {
		return nil, err
	}
	var gc GatewayConfig
	if err := json.Unmarshal(raw, &gc); err != nil {
		return nil, fmt.Errorf("gateway of network %q: %w", network, err)
	}
	return &gc, nil
}

// ParseHostCIDRs reads HostCIDRsKey; a node that has said nothing has none.
func ParseHostCIDRs(value string) ([]netip.Prefix, error) {
	if value == "" {
		return nil, nil
	}
	var list []netip.Prefix
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, fmt.Errorf("host addresses: %w", err)
	}
	for _, prefix := range list {
		if !prefix.IsValid() { // an empty text
			return nil, errors.New("host addresses: one of them is empty")
		}
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("host addresses: %s is neither IPv4 nor IPv6", prefix)
		}
	}
	return list, nil
}

// ParseEncapIPs reads NodeEncapIPsKey; a node that has said nothing has none.
func ParseEncapIPs(value string) ([]netip.Addr, error) {
	if value == "" {
		return nil, nil
	}
	var list []netip.Addr
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, fmt.Errorf("tunnel addresses: %w", err)
	}
	return list, nil
}

func networkValue(value, network string) (json.RawMessage, error) {
	return NewValues(value).value(network)
}

// MACFromAddress derives the MAC that OVN-Kubernetes gives to an address: 0a:58
// and the four bytes of an IPv4 address, or the first four of the SHA-256 of an
// IPv6 address as text.
func MACFromAddress(addr netip.Addr) MAC {
	if addr.Is4() {
		b := addr.As4()
		return MAC{0x0a, 0x58, b[0], b[1], b[2], b[3]}
	}
	hash := sha256.Sum256([]byte(addr.String()))
	return MAC{0x0a, 0x58, hash[0], hash[1], hash[2], hash[3]}
}

// ACLLogging is the value of ACLLoggingKey: severities of OVN's logs, "" where
// nothing is logged.
type ACLLogging struct {
	Allow string `json:"allow,omitempty"`
	Deny  string `json:"deny,omitempty"`
}

// ParseACLLogging gives no logging for "" and, with an error, for what OVN does not know.
func ParseACLLogging(value string) (ACLLogging, error) {
	if value == "" {
		return ACLLogging{}, nil
	}
	var logging ACLLogging
	if err := json.Unmarshal([]byte(value), &logging); err != nil {
		return ACLLogging{}, err
	}
	for _, severity := range []string{logging.Allow, logging.Deny} {
		if severity != "" && !slices.Contains([]string{"alert", "warning", "notice", "info", "debug"}, severity) {
			return ACLLogging{}, fmt.Errorf("severity %q is not alert, warning, notice, info or debug", severity)
		}
	}
	return logging, nil
}

// PrimaryOf is what PodNetworksKey has of the primary network of the pod's namespace, with its key; nil where the default network is
// the primary one.
func PrimaryOf(annotation string) (key string, network *PodNetwork) {
	values := NewValues(annotation)
	for _, key := range Networks(annotation) {
		if n, err := values.PodNetwork(key); key != "" && err == nil && n != nil && Role(n.Role) == RolePrimary {
			return key, n
		}
	}
	return "", nil
}

// Networks are those that an annotation has an object for, "" for the default network, in the order of their keys. An
// annotation that cannot be read, or is itself one network's object, is the default network's.
func Networks(annotation string) []string {
	if annotation == "" {
		return nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(annotation), &values) != nil || values["sandboxId"] != nil {
		return []string{""}
	}
	var networks []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !bytes.HasPrefix(values[key], []byte("{")):
		case key == DefaultNetwork:
			networks = append(networks, "")
		default:
			networks = append(networks, key)
		}
	}
	return networks
}

// NetworkKeys are the keys of an annotation, sorted; none of one that cannot be read.
func NetworkKeys(annotation string) []string {
	return NewValues(annotation).Keys()
}

// HasFurther says that PodNetworksKey may have other networks than the default one. Most pods have none, which is seen without
// reading the JSON.
func HasFurther(annotation string) bool {
	return annotation != "" && (!strings.HasPrefix(annotation, `{"`+DefaultNetwork+`":`) || strings.Contains(annotation, `},"`))
}

// HasKey says that an annotation has a value for a network.
func HasKey(annotation, network string) bool {
	return NewValues(annotation).Names(network)
}

// SetNetwork gives the annotation with one network's value replaced, or removed
// when value is nil; other networks' stay. What cannot be read is dropped. The
// result is "" when no network is left.
func SetNetwork(annotation, network string, value any) (string, error) {
	networks := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(annotation), &networks) != nil || networks == nil || isBare(networks) { // "null" gives nil
		networks = map[string]json.RawMessage{}
	}
	delete(networks, network)
	if value != nil {
		raw, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		networks[network] = raw
	}
	if len(networks) == 0 {
		return "", nil
	}
	out, err := json.Marshal(networks)
	return string(out), err
}

// isBare reports whether an annotation has the legacy form, one bare object.
func isBare(fields map[string]json.RawMessage) bool {
	return fields["sandboxId"] != nil || fields["FuncId"] != nil
}

// HasNetwork says that the value of one network in an annotation is this JSON text.
func HasNetwork(annotation, network, text string) bool {
	return NewValues(annotation).Has(network, text)
}

// only is what an annotation has between its first key and its end, "" when that key is not the network's. It is the
// network's value where no other network follows.
func only(annotation, network string) string {
	value, ok := strings.CutPrefix(annotation, `{"`+network+`":`)
	value, closed := strings.CutSuffix(value, "}")
	if !ok || !closed {
		return ""
	}
	return value
}
