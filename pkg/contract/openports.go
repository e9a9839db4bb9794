package contract

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// OpenPort is an element of OpenPortsKey. ICMP has no port.
type OpenPort struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

// MaxOpenPorts is the number of different elements that OpenPortsKey may have, and maxOpenPortsSize the number of bytes.
const (
	MaxOpenPorts     = 100
	maxOpenPortsSize = 16 << 10
)

// ParseOpenPorts reads OpenPortsKey, without repeated elements. More than 100 of them are an error.
func ParseOpenPorts(value string) ([]OpenPort, error) {
	var all, out []OpenPort
	if len(value) > maxOpenPortsSize {
		return nil, fmt.Errorf("annotation %s: it has %d bytes, and may have %d", OpenPortsKey, len(value), maxOpenPortsSize)
	}
	if err := yaml.UnmarshalStrict([]byte(value), &all); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", OpenPortsKey, err)
	}
	for _, p := range all {
		switch isICMP := p.Protocol == "icmp"; {
		case !isICMP && !slices.Contains([]string{"tcp", "udp", "sctp"}, p.Protocol):
			return nil, fmt.Errorf("annotation %s: protocol %.100q is none of tcp, udp, sctp and icmp", OpenPortsKey, p.Protocol)
		case isICMP && p.Port != 0:
			return nil, fmt.Errorf("annotation %s: protocol icmp has no port", OpenPortsKey)
		case !isICMP && (p.Port < 1 || p.Port > 65535):
			return nil, fmt.Errorf("annotation %s: port %d of protocol %s is not between 1 and 65535", OpenPortsKey, p.Port, p.Protocol)
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
		if len(out) > MaxOpenPorts {
			return nil, fmt.Errorf("annotation %s: it has more than %d ports", OpenPortsKey, MaxOpenPorts)
		}
	}
	return out, nil
}
