package pki

import (
	"fmt"
	"net"
	"strings"
)

// Hosts gives the hosts of a comma-separated list of OVSDB endpoints, such as
// "ssl:172.18.0.3:6641,ssl:[fd00::3]:6641".
func Hosts(endpoints string) ([]string, error) {
	var hosts []string
	for endpoint := range strings.SplitSeq(endpoints, ",") {
		address, ok := strings.CutPrefix(strings.TrimSpace(endpoint), "ssl:")
		host, port, err := net.SplitHostPort(address)
		if !ok || err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("endpoint %q is not ssl:HOST:PORT", endpoint)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}
