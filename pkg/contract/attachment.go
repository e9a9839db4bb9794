package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of the Network Plumbing Working Group's specification, and of OVN-Kubernetes on its objects.
const (
	// NetworksKey lists the further networks of a pod; user, on a Pod.
	NetworksKey = "k8s.v1.cni.cncf.io/networks"
	// DefaultNetworkKey asks for addresses, a MAC or an IPAMClaim on the primary network of the namespace, as one element
	// of NetworksKey with the name of DefaultNetworkNAD; user, on a Pod.
	DefaultNetworkKey = "v1.multus-cni.io/default-network"
	// DefaultNetworkNAD is the only NetworkAttachmentDefinition that DefaultNetworkKey may name.
	DefaultNetworkNAD = "ovn-kubernetes/default"
	// NetworkStatusKey holds what the pod's interfaces are; Multus, or the controller where there is no Multus.
	NetworkStatusKey = "k8s.v1.cni.cncf.io/network-status"
	// ResourceNameKey names the device plugin's resource of a network; user, on a NetworkAttachmentDefinition.
	ResourceNameKey = "k8s.v1.cni.cncf.io/resourceName"
	// NamespacesKey lists the namespaces beside its own that may use a network, with commas between, or "*" for all; user, on a
	// NetworkAttachmentDefinition or a UserDefinedNetwork.
	NamespacesKey = "ovn-offload.io/namespaces"
	// GatewayKey lists what pods of a secondary network reach by a gateway; user, on a NetworkAttachmentDefinition.
	GatewayKey = "ovn-offload.io/gateway"
	// ServiceNetworkKey names the network on which a Service is, by its NetworkAttachmentDefinition; user, on a Service.
	ServiceNetworkKey = "ovn-offload.io/network"
	// PolicyForKey lists the NetworkAttachmentDefinitions whose networks a policy is for; user, on a MultiNetworkPolicy.
	PolicyForKey = "k8s.v1.cni.cncf.io/policy-for"
	// NetworkNameKey and NetworkIDKey hold the name and the decimal id of a network; controller, on a
	// NetworkAttachmentDefinition.
	NetworkNameKey = "k8s.ovn.org/network-name"
	NetworkIDKey   = "k8s.ovn.org/network-id"
)

// Keys in the external_ids of the rows of further networks.
const (
	NetworkLabel  = "k8s.ovn.org/network"
	TopologyLabel = "k8s.ovn.org/topology"
	RoleLabel     = "k8s.ovn.org/role"
	NADLabel      = "k8s.ovn.org/nad"
)

// The lists in a pod's annotations have limits, since all pods wait for the time that they cost.
const (
	// MaxAttachments is how many further interfaces a pod may ask for.
	MaxAttachments = 64
	// MaxAskedAddresses is how many addresses a pod may ask for on one of them.
	MaxAskedAddresses = 32
	// MaxAskedRoutes is how many routes a pod may ask for in the annotations of OVN4NFV.
	MaxAskedRoutes = 256
)

// MaxPolicyNADs is on how many NetworkAttachmentDefinitions a MultiNetworkPolicy may have rules.
const MaxPolicyNADs = 64

// LimitError says that a list of a user has too many elements.
type LimitError string

func (e LimitError) Error() string { return string(e) }

func beyond(format string, args ...any) error { return LimitError(fmt.Sprintf(format, args...)) }

// PluginType is the CNI type of our NetworkAttachmentDefinitions.
const PluginType = "ovn-k8s-cni-overlay"

// RoleLocked is the role of the default network in a pod whose namespace has a primary network: only the node reaches
// the pod there.
const RoleLocked Role = "infrastructure-locked"

// PrimaryInterface is the interface of a pod on the primary network of its namespace.
const PrimaryInterface = "ovn-udn1"

// Attachment is one interface that a pod asks for in NetworksKey. Its key names it in PodNetworksKey.
type Attachment struct {
	// NAD is "namespace/name" of the NetworkAttachmentDefinition.
	NAD string
	// Index counts the pod's attachments of one NetworkAttachmentDefinition from 0.
	Index int
	// Interface is the name in the pod.
	Interface string
	// Addresses that the pod asks for; one without a length has all bits.
	Addresses []netip.Prefix
	// MAC that the pod asks for, or nil.
	MAC MAC
	// Gateways of the pod's default routes, which then lead through this interface.
	Gateways []netip.Addr
	// AskedRoutes are those that the pod asks for by this interface.
	AskedRoutes []Route
	// Claim is the name of an IPAMClaim in the pod's namespace.
	Claim string
}

// Key is "namespace/name" for the first attachment of a NetworkAttachmentDefinition, and "namespace/name/1" for the
// second.
func (a Attachment) Key() string {
	if a.Index == 0 {
		return a.NAD
	}
	return a.NAD + "/" + strconv.Itoa(a.Index)
}

// NADOf is the NetworkAttachmentDefinition of an attachment's key.
func NADOf(key string) string {
	if parts := strings.SplitN(key, "/", 3); len(parts) == 3 {
		return parts[0] + "/" + parts[1]
	}
	return key
}

// IsAttached says that a pod asks for further networks, or has the primary network of its namespace.
func IsAttached(pod *corev1.Pod) bool {
	return AsksForNetworks(pod) || strings.Contains(pod.Annotations[PodNetworksKey], string(RoleLocked))
}

// AttachmentKeys are the keys of a pod's attachments to further networks: those that it asks for, and those that it has.
func AttachmentKeys(pod *corev1.Pod) (keys []string) {
	if !IsAttached(pod) {
		return nil
	}
	attachments, _ := Attachments(pod) // the allocator reports the error
	seen := map[string]bool{DefaultNetwork: true}
	for _, a := range attachments {
		key := a.Key()
		keys, seen[key] = append(keys, key), true
	}
	for _, key := range NetworkKeys(pod.Annotations[PodNetworksKey]) {
		if !seen[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// ParsePolicyFor reads PolicyForKey: keys of NetworkAttachmentDefinitions, each once, of which those without a namespace
// are in the policy's. The error names the first element that is none. With more than MaxPolicyNADs there is an error, too,
// and all are returned: a policy that is left out opens.
func ParsePolicyFor(value, namespace string) (nads []string, err error) {
	seen, wrong := map[string]bool{}, 0
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		in, name, ok := strings.Cut(entry, "/")
		if !ok {
			in, name = namespace, entry
		}
		if !objectName.MatchString(in) || !objectName.MatchString(name) {
			if wrong++; wrong == 1 {
				err = fmt.Errorf("%.100q is not the name of a NetworkAttachmentDefinition", entry)
			}
			continue
		}
		if key := in + "/" + name; !seen[key] {
			seen[key] = true
			nads = append(nads, key)
		}
	}
	if wrong > 1 {
		err = fmt.Errorf("%w, and neither are %d other elements", err, wrong-1)
	}
	if n := len(nads); n > MaxPolicyNADs {
		err = errors.Join(err, fmt.Errorf("%d networks are listed, and a policy may have %d: on those that follow, it allows nothing", n, MaxPolicyNADs))
	}
	return nads, err
}

// selection is an element of NetworksKey.
type selection struct {
	Name         string   `json:"name"`
	Namespace    string   `json:"namespace"`
	Interface    string   `json:"interface"`
	IPs          []string `json:"ips"`
	MAC          string   `json:"mac"`
	DefaultRoute []string `json:"default-route"`
	Claim        string   `json:"ipam-claim-reference"`
}

// Attachments are what a pod asks for in NetworksKey, in its order, then in the annotations of OVN4NFV. Without an
// interface's name, the attachment at position n has net<n>, counted from 1. A pod that asks for more than MaxAttachments
// gets none. Of one that runs, what it asks for beyond them later is left out.
func Attachments(pod *corev1.Pod) ([]Attachment, error) {
	selections, err := parseSelections(pod.Annotations[NetworksKey])
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", NetworksKey, err)
	}
	nodus, err := nodusSelections(pod)
	if err != nil {
		return nil, err
	}
	all, err := limit(pod, append(selections, nodus...))
	if err != nil {
		return nil, err
	}
	var out []Attachment
	count, taken, led := map[string]int{}, map[string]bool{"eth0": true, "lo": true}, map[Family]bool{}
	ports := map[string]string{}
	for i, s := range all {
		annotation, position := NetworksKey, i+1
		if i >= len(selections) {
			annotation, position = nodusKey(pod), i+1-len(selections)
		}
		a, err := s.attachment(pod.Namespace, position)
		if n := len(a.Addresses); err == nil && n > MaxAskedAddresses && !runs(pod) {
			err = beyond("%d addresses are more than the %d that a pod may ask for", n, MaxAskedAddresses)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: network %d: %w", annotation, position, err)
		}
		if taken[a.Interface] {
			return nil, fmt.Errorf("annotation %s: network %d: interface %s is taken already", annotation, position, a.Interface)
		}
		taken[a.Interface] = true
		for _, gateway := range a.Gateways {
			if led[FamilyOf(gateway)] {
				return nil, fmt.Errorf("annotation %s: network %d: default-route %s is the second of its family", annotation, position, gateway)
			}
			led[FamilyOf(gateway)] = true
		}
		a.Index = count[a.NAD]
		count[a.NAD]++
		port := Network{Name: a.Key()}.PodPort(pod.Namespace, pod.Name)
		if other := ports[port]; other != "" {
			return nil, fmt.Errorf("annotation %s: network %d: the pod's ports on %s and %s would have one name in OVN, where '-', '/' and '.' are one "+
				"character: give one of the NetworkAttachmentDefinitions another name", annotation, position, other, a.Key())
		}
		ports[port] = a.Key()
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, addRoutes(pod, out)
}

// limit refuses more than MaxAttachments. A pod that runs may have had more under a former version: it keeps those of its
// start.
func limit(pod *corev1.Pod, all []selection) ([]selection, error) {
	if len(all) <= MaxAttachments {
		return all, nil
	}
	if !runs(pod) {
		return nil, beyond("the pod asks for %d networks, and at most %d are possible", len(all), MaxAttachments)
	}
	return all[:min(len(all), max(MaxAttachments, len(NetworkKeys(pod.Annotations[PodNetworksKey]))))], nil
}

// runs says that a pod has its interfaces: what it asks for now changes nothing.
func runs(pod *corev1.Pod) bool { return len(pod.Status.PodIPs) > 0 }

// OnPrimary is what a pod asks for on the primary network of its namespace in DefaultNetworkKey.
func OnPrimary(pod *corev1.Pod) (a Attachment, err error) {
	selections, err := parseSelections(pod.Annotations[DefaultNetworkKey])
	if err == nil && len(selections) == 1 {
		a, err = selections[0].attachment(pod.Namespace, 0)
	}
	if err == nil && (len(selections) > 1 || len(selections) == 1 && a.NAD != DefaultNetworkNAD) {
		err = fmt.Errorf("the only element must be %s", DefaultNetworkNAD)
	}
	if n := len(a.Addresses); err == nil && n > MaxAskedAddresses {
		err = beyond("%d addresses are more than the %d that a pod may ask for", n, MaxAskedAddresses)
	}
	if err != nil {
		return Attachment{}, fmt.Errorf("annotation %s: %w", DefaultNetworkKey, err)
	}
	return a, nil
}

func parseSelections(value string) ([]selection, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil, nil
	}
	var list []selection
	if strings.ContainsAny(value, `[{"`) {
		return list, json.Unmarshal([]byte(value), &list)
	}
	for entry := range strings.SplitSeq(value, ",") {
		var s selection
		entry = strings.TrimSpace(entry)
		if namespace, rest, ok := strings.Cut(entry, "/"); ok {
			s.Namespace, entry = namespace, rest
			if namespace == "" {
				return nil, fmt.Errorf("%.100q has an empty namespace", "/"+entry)
			}
		}
		s.Name, s.Interface, _ = strings.Cut(entry, "@")
		list = append(list, s)
	}
	return list, nil
}

var (
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	linkName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,14}$`)
)

func (s selection) attachment(namespace string, position int) (Attachment, error) {
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	if s.Interface == "" {
		s.Interface = "net" + strconv.Itoa(position)
	}
	a := Attachment{NAD: s.Namespace + "/" + s.Name, Interface: s.Interface, Claim: s.Claim}
	switch {
	case !objectName.MatchString(s.Name) || !objectName.MatchString(s.Namespace):
		return a, fmt.Errorf("%.320q is not the name of a NetworkAttachmentDefinition", a.NAD)
	case !linkName.MatchString(s.Interface):
		return a, fmt.Errorf("%.100q cannot be the name of an interface", s.Interface)
	case s.Claim != "" && !objectName.MatchString(s.Claim):
		return a, fmt.Errorf("%.100q is not the name of an IPAMClaim", s.Claim)
	}
	for _, text := range s.IPs {
		prefix, err := parseAddress(text)
		if err != nil {
			return a, err
		}
		a.Addresses = append(a.Addresses, prefix)
	}
	for _, text := range s.DefaultRoute {
		gateway, err := netip.ParseAddr(text)
		if err != nil {
			return a, fmt.Errorf("default-route: %.100q is not an IP address", text)
		}
		a.Gateways = append(a.Gateways, gateway.Unmap())
	}
	if s.MAC != "" {
		if err := a.MAC.UnmarshalText([]byte(s.MAC)); err != nil {
			return a, fmt.Errorf("mac: %w", err)
		}
		if a.MAC[0]&1 != 0 {
			return a, fmt.Errorf("mac %s is not a unicast address", a.MAC)
		}
	}
	return a, nil
}

// parseAddress reads an address with or without a length.
func parseAddress(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, addrErr := netip.ParseAddr(text)
		if addrErr != nil {
			return prefix, fmt.Errorf("ips: %.100q is not an IP address", text)
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if addr := prefix.Addr(); addr.Is4In6() || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() {
		return prefix, fmt.Errorf("ips: %s cannot be the address of an interface", prefix)
	}
	return prefix, nil
}
