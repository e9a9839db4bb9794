package render

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// netconf has the keys of OVN-Kubernetes in the order in which they are written.
type netconf struct {
	identity
	MTU int32 `json:"mtu,omitempty"`
	addresses
	VLAN            int32  `json:"vlanID,omitempty"`
	PhysicalNetwork string `json:"physicalNetworkName,omitempty"`
	AllowPersistent bool   `json:"allowPersistentIPs,omitempty"`
	PortSecurity    string `json:"portSecurity,omitempty"`
	Transport       string `json:"transport,omitempty"`
	EVPN            *evpn  `json:"evpn,omitempty"`
}

type identity struct {
	CNIVersion string `json:"cniVersion"`
	Type       string `json:"type"`
	Name       string `json:"name"`
	NADName    string `json:"netAttachDefName"`
	Topology   string `json:"topology"`
	Role       string `json:"role"`
}

// addresses are lists with commas between.
type addresses struct {
	Subnets         string `json:"subnets,omitempty"`
	ExcludeSubnets  string `json:"excludeSubnets,omitempty"`
	ReservedSubnets string `json:"reservedSubnets,omitempty"`
	InfraSubnets    string `json:"infrastructureSubnets,omitempty"`
	DefaultGateways string `json:"defaultGatewayIPs,omitempty"`
	JoinSubnet      string `json:"joinSubnet,omitempty"`
	TransitSubnet   string `json:"transitSubnet,omitempty"`
}

type evpn struct {
	VTEP   string `json:"vtep"`
	MACVRF *vrf   `json:"macVRF,omitempty"`
	IPVRF  *vrf   `json:"ipVRF,omitempty"`
}

type vrf struct {
	VNI         int32  `json:"vni"`
	RouteTarget string `json:"routeTarget,omitempty"`
}

// defaultJoin are the subnets of a primary network that names none.
const defaultJoin = "100.65.0.0/16,fd99::/64"

// join writes a list as netconf has lists.
func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = string(item)
	}
	return strings.Join(texts, ",")
}

// transitTries bounds the search of transit.
const transitTries = 10

// transit chooses subnets for the routers of a primary layer2 network: the first of each family that overlap none of those
// in lists.
func transit(lists ...string) (string, error) {
	var used []netip.Prefix
	for _, text := range strings.Split(strings.Join(lists, ","), ",") {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			used = append(used, prefix)
		}
	}
	ipv4, err4 := firstFree("100.%d.0.0/16", 88, used)
	ipv6, err6 := firstFree("fd%02x::/64", 0x97, used)
	return ipv4 + "," + ipv6, cmp.Or(err4, err6)
}

func firstFree(form string, first int, used []netip.Prefix) (string, error) {
	for i := range transitTries {
		prefix := netip.MustParsePrefix(fmt.Sprintf(form, first+i))
		if !slices.ContainsFunc(used, prefix.Overlaps) {
			return prefix.String(), nil
		}
	}
	return "", fmt.Errorf("subnets and joinSubnets overlap all subnets that the routers could have, from "+form+" on", first)
}
