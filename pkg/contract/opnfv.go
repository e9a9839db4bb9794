package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of OVN4NFV (Nodus) on pods.
const (
	// NodusNetworksKey lists further networks of a pod; user.
	NodusNetworksKey = "k8s.plugin.opnfv.org/nfn-network"
	// OVNNetworkKey is the older form of NodusNetworksKey; user.
	OVNNetworkKey = "ovnNetwork"
	// NodusInterfacesKey holds the interfaces that NodusNetworksKey has led to; controller.
	NodusInterfacesKey = "k8s.plugin.opnfv.org/ovnInterfaces"
	// OVNRoutesKey lists routes by a pod's further interfaces; user.
	OVNRoutesKey = "ovnNetworkRoutes"
)

// ChainFailureKey holds "open" on a NetworkChaining whose packets pass functions without a ready pod, "closed" or nothing
// where they are dropped; user.
const ChainFailureKey = "ovn-offload.io/chain-failure"

// AsksForNetworks says that a pod has an annotation that Attachments reads.
func AsksForNetworks(pod *corev1.Pod) bool {
	return pod.Annotations[NetworksKey] != "" || nodusKey(pod) != ""
}

// nodusInterface is an element of NodusNetworksKey and of OVNNetworkKey; encoding/json reads keys in any case.
type nodusInterface struct {
	Name           string `json:"name"`
	Interface      string `json:"interface"`
	Request        string `json:"interfaceRequest"` // another spelling of Interface
	DefaultGateway string `json:"defaultGateway"`
	IPAddress      string `json:"ipAddress"`
	MACAddress     string `json:"macAddress"`
	Gateway        string `json:"gwipaddress"`
}

// nodusKey is the annotation of OVN4NFV that a pod has, or "". The newer one wins.
func nodusKey(pod *corev1.Pod) string {
	for _, key := range []string{NodusNetworksKey, OVNNetworkKey} {
		if pod.Annotations[key] != "" {
			return key
		}
	}
	return ""
}

// nodusSelections translates the annotation of OVN4NFV. A name without a namespace is in the pod's.
func nodusSelections(pod *corev1.Pod) ([]selection, error) {
	key, list := nodusKey(pod), []nodusInterface(nil)
	var err error
	switch text := []byte(pod.Annotations[key]); key {
	case NodusNetworksKey:
		var value struct {
			Type      string           `json:"type"`
			Interface []nodusInterface `json:"interface"`
		}
		if err = json.Unmarshal(text, &value); err == nil && value.Type != "ovn4nfv" {
			err = fmt.Errorf("type %.100q is not ovn4nfv", value.Type)
		}
		list = value.Interface
	case OVNNetworkKey:
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", key, err)
	}
	var out []selection
	led := false
	for i, n := range list {
		s, err := n.selection(!led)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: interface %d: %w", key, i+1, err)
		}
		led = led || len(s.DefaultRoute) > 0
		out = append(out, s)
	}
	return out, nil
}

// selection is the same in the words of NetworksKey. Of several default gateways only the first leads.
func (n nodusInterface) selection(mayLead bool) (selection, error) {
	s := selection{Name: n.Name, Interface: n.Interface, MAC: n.MACAddress}
	if s.Interface == "" {
		s.Interface = n.Request
	}
	if namespace, name, ok := strings.Cut(n.Name, "/"); ok {
		s.Namespace, s.Name = namespace, name
	}
	for text := range strings.FieldsFuncSeq(n.IPAddress, isSeparator) {
		s.IPs = append(s.IPs, text)
	}
	isDefault := strings.EqualFold(n.DefaultGateway, "true")
	switch {
	case s.Interface == "":
		return s, errors.New("interface is missing")
	case isDefault && n.Gateway == "":
		return s, errors.New("defaultGateway needs gwipaddress, the address of the gateway")
	case isDefault && mayLead:
		for text := range strings.FieldsFuncSeq(n.Gateway, isSeparator) {
			address, _, _ := strings.Cut(text, "/")
			s.DefaultRoute = append(s.DefaultRoute, address)
		}
	}
	return s, nil
}

func isSeparator(r rune) bool { return r == ',' || r == ' ' }

// ovnInterface is an element of NodusInterfacesKey.
type ovnInterface struct {
	IPs            []string `json:"ip_address"`
	MAC            string   `json:"mac_address"`
	Gateways       []string `json:"gateway_ip"`
	DefaultGateway string   `json:"defaultGateway"`
	Interface      string   `json:"interface"`
}

// NodusInterfaces is the value of NodusInterfacesKey that follows from PodNetworksKey: the further interfaces, then the
// first, which is "*". It is "" for a pod without the annotations of OVN4NFV, and while an interface has nothing yet.
func NodusInterfaces(pod *corev1.Pod, podNetworks string) string {
	if nodusKey(pod) == "" {
		return ""
	}
	attachments, err := Attachments(pod)
	if err != nil {
		return ""
	}
	values, list := NewValues(podNetworks), []ovnInterface(nil)
	for _, a := range append(attachments, Attachment{NAD: DefaultNetwork, Interface: "*"}) {
		network, err := values.PodNetwork(a.Key())
		if err != nil || network == nil {
			return ""
		}
		i := ovnInterface{MAC: network.MAC.String(), Interface: a.Interface, IPs: []string{}, Gateways: []string{}, DefaultGateway: "false"}
		for _, prefix := range network.Addresses {
			i.IPs = append(i.IPs, prefix.String())
		}
		for _, gateway := range network.Gateways {
			i.Gateways, i.DefaultGateway = append(i.Gateways, gateway.String()), "true"
		}
		list = append(list, i)
	}
	text, _ := json.Marshal(list) // has a JSON form
	return string(text)
}

// nodusRoute is an element of OVNRoutesKey, and of routes in NodusNetworksKey.
type nodusRoute struct {
	Dest    string `json:"dst"`
	Gateway string `json:"gw"`
	Dev     string `json:"dev"`
}

// nodusRoutes are those of a pod's annotations.
func nodusRoutes(pod *corev1.Pod) (list []nodusRoute, err error) {
	var value struct {
		Routes []nodusRoute `json:"routes"`
	}
	if text := pod.Annotations[OVNRoutesKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", OVNRoutesKey, err)
		}
	}
	if text := pod.Annotations[NodusNetworksKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", NodusNetworksKey, err)
		}
	}
	return append(list, value.Routes...), nil
}

// addRoutes gives the attachments of a pod the routes by their interfaces.
func addRoutes(pod *corev1.Pod, attachments []Attachment) error {
	list, err := nodusRoutes(pod)
	if len(list) > MaxAskedRoutes {
		if !runs(pod) {
			return beyond("%d routes are more than the %d that a pod may ask for", len(list), MaxAskedRoutes)
		}
		list = list[:MaxAskedRoutes]
	}
	if err != nil {
		return err
	}
	for _, r := range list {
		route, err := r.route()
		if err != nil {
			return fmt.Errorf("route to %.100q: %w", r.Dest, err)
		}
		at := slices.IndexFunc(attachments, func(a Attachment) bool { return a.Interface == r.Dev })
		if at < 0 {
			return fmt.Errorf("route to %.100q: dev %.100q is none of the pod's interfaces on further networks", r.Dest, r.Dev)
		}
		attachments[at].AskedRoutes = append(attachments[at].AskedRoutes, route)
	}
	return nil
}

func (r nodusRoute) route() (Route, error) {
	dest, err := netip.ParsePrefix(r.Dest)
	if err != nil {
		addr, addrErr := netip.ParseAddr(r.Dest)
		if addrErr != nil {
			return Route{}, errors.New("dst is neither a subnet nor an address")
		}
		dest = netip.PrefixFrom(addr, addr.BitLen())
	}
	text, _, _ := strings.Cut(r.Gateway, "/")
	hop, err := netip.ParseAddr(text)
	switch {
	case err != nil || hop.Is4In6() || hop.Zone() != "":
		return Route{}, fmt.Errorf("gw %.100q is not an IP address", r.Gateway)
	case dest.Addr().Is4() != hop.Is4() || dest.Addr().Is4In6():
		return Route{}, fmt.Errorf("gw %s is of another family", hop)
	case dest.Bits() == 0:
		return Route{}, errors.New("a default route needs defaultGateway and gwipaddress")
	}
	return Route{Dest: dest.Masked(), NextHop: hop}, nil
}
