package lb

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// MaxBackends is how many backends the frontends of one service may have together; one without a backend counts as one. Ports
// count in their order. A port that does not fit is not served, and a later one that fits is.
const MaxBackends = 1_000_000

// portKey is what the port of a service and that of a slice have in common.
type portKey struct {
	name     string
	protocol corev1.Protocol
}

// numbersOf are the numbers of the ports of each slice.
func numbersOf(some []*discoveryv1.EndpointSlice) []map[portKey]uint16 {
	all := make([]map[portKey]uint16, len(some))
	for i, slice := range some {
		all[i] = map[portKey]uint16{}
		for _, p := range slice.Ports {
			key := portKey{protocol: corev1.ProtocolTCP}
			if p.Protocol != nil {
				key.protocol = *p.Protocol
			}
			if p.Name != nil {
				key.name = *p.Name
			}
			if _, again := all[i][key]; p.Port != nil && !again {
				all[i][key] = uint16(*p.Port)
			}
		}
	}
	return all
}

// numbered is a slice with the number that it has for a port.
type numbered struct {
	*discoveryv1.EndpointSlice
	number uint16
}

// having are the slices with a port in a family.
func (s *service) having(numbers []map[portKey]uint16, port corev1.ServicePort, family contract.Family) (some []numbered) {
	for i, slice := range s.slices {
		if number := numbers[i][portKey{port.Name, protocolOf(port.Protocol)}]; number != 0 && slice.AddressType == addressType(family) {
			some = append(some, numbered{slice, number})
		}
	}
	return some
}

// cost is about how many backends the frontends of a port in one family have: at the cluster address, at nodes, and at each
// external address. It looks at numbers only, so that a port that is not served costs nothing.
func (s *service) cost(some []numbered) int {
	endpoints := 0
	for _, slice := range some {
		endpoints += len(slice.Endpoints)
	}
	return (2 + len(s.external)) * max(1, endpoints)
}

// RefusedPorts tells which ports of a service are not served, since the service has too many backends; "" for none. It names at
// most five.
func RefusedPorts(view View, network contract.Network, name types.NamespacedName) string {
	s, err := readService(view, scope{network, view.Zone()}, name)
	if s == nil || err != nil || s.onFurther(view) != nil {
		return ""
	}
	numbers, left := numbersOf(s.slices), MaxBackends
	var refused []string
	for _, port := range s.Spec.Ports {
		for _, address := range s.addresses {
			family := contract.FamilyOf(address)
			cost := s.cost(s.having(numbers, port, family))
			if cost <= left {
				left -= cost
			} else if len(refused) < 5 {
				refused = append(refused, fmt.Sprintf("%d/%s (%s)", port.Port, protocolOf(port.Protocol), family))
			}
		}
	}
	return strings.Join(refused, ", ")
}
