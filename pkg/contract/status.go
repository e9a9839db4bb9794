package contract

import (
	"cmp"
	"encoding/json"

	"github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
)

// interfaceStatus is an element of NetworkStatusKey, as the specification of the Network Plumbing Working Group has it.
type interfaceStatus struct {
	Name      string    `json:"name"`
	Interface string    `json:"interface,omitempty"`
	IPs       []string  `json:"ips,omitempty"`
	MAC       string    `json:"mac,omitempty"`
	Default   bool      `json:"default,omitempty"`
	MTU       int       `json:"mtu,omitempty"`
	DNS       types.DNS `json:"dns"`
	Gateways  []string  `json:"gateway,omitempty"`
}

// NetworkStatus is the value of NetworkStatusKey that follows from PodNetworksKey: the interface on the default network, that on
// the primary network of the namespace, then the others in the order in which the pod asks for them. It is "" for a pod on the
// default network alone.
func NetworkStatus(pod *corev1.Pod, podNetworks string) string {
	attachments, err := Attachments(pod)
	key, primary := PrimaryOf(podNetworks)
	if err != nil || len(attachments) == 0 && primary == nil {
		return ""
	}
	values, list := NewValues(podNetworks), []interfaceStatus(nil)
	add := func(key, name, link string) {
		network, err := values.PodNetwork(key)
		if err != nil || network == nil {
			return
		}
		s := interfaceStatus{Name: name, Interface: link, MAC: network.MAC.String(), MTU: network.MTU, Default: len(network.Gateways) > 0}
		if network.DNS != nil {
			s.DNS = *network.DNS
		}
		for _, prefix := range network.Addresses {
			s.IPs = append(s.IPs, prefix.Addr().String())
		}
		for _, gateway := range network.Gateways {
			s.Gateways = append(s.Gateways, gateway.String())
		}
		list = append(list, s)
	}
	add(DefaultNetwork, "ovn-kubernetes", "eth0")
	if primary != nil {
		add(key, NADOf(key), cmp.Or(primary.Interface, PrimaryInterface))
	}
	for _, a := range attachments {
		add(a.Key(), a.NAD, a.Interface)
	}
	text, _ := json.MarshalIndent(list, "", "    ") // has a JSON form
	return string(text)
}
