package ovn

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// tracedService is a service with TCP port 80 for port 8080 of pods. The service of index i has the addresses 10.96.0.1i
// and fd00:10:96::1i.
type tracedService struct {
	name string
	pods []string
	// more are further fields of its specification.
	more string
}

// yaml is the service with its endpoints.
func (s tracedService) yaml(d *dualStack, i int) string {
	text := fmt.Sprintf("---\nkind: Service\napiVersion: v1\nmetadata: {namespace: ns, name: %s}\n"+
		"spec: {clusterIP: %[2]s, clusterIPs: [%[2]s, '%[3]s'], %[4]s ports: [{name: web, port: 80, nodePort: %[5]d}]}\n",
		s.name, clusterIP(i, contract.IPv4), clusterIP(i, contract.IPv6), s.more, s.nodePort(i))
	for family := range families() {
		var endpoints []string
		for _, pod := range s.pods {
			endpoints = append(endpoints, fmt.Sprintf("{addresses: ['%s'], nodeName: n%d, conditions: {ready: true}}", d.address(pod, family), d.pods[pod].node))
		}
		text += fmt.Sprintf("---\nkind: EndpointSlice\napiVersion: discovery.k8s.io/v1\n"+
			"metadata: {namespace: ns, name: %s-%s, labels: {kubernetes.io/service-name: %[1]s}}\naddressType: %[2]s\n"+
			"ports: [{name: web, port: 8080, protocol: TCP}]\nendpoints: [%[3]s]\n", s.name, family, strings.Join(endpoints, ", "))
	}
	return text
}

func (s tracedService) nodePort(i int) int {
	if strings.Contains(s.more, "NodePort") {
		return 30080 + i
	}
	return 0
}

func clusterIP(i int, family contract.Family) netip.Addr {
	if family == contract.IPv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:96::1%x", i))
	}
	return netip.AddrFrom4([4]byte{10, 96, 0, byte(10 + i)})
}

func servicesYAML(d *dualStack, services []tracedService) (text string) {
	for i, s := range services {
		text += s.yaml(d, i)
	}
	return text
}

var backends = regexp.MustCompile(`ls_in_lb .*\n(?:.*\n){1,3} *ct_lb_mark\(backends=([^);]*)`)

// backendsOf are those of the load balancer of the first switch of a trace, sorted.
func backendsOf(trace string) (all []string) {
	if match := backends.FindStringSubmatch(trace); match != nil {
		all = strings.Split(match[1], ",")
		slices.Sort(all)
	}
	return all
}

// TestService_TracesLeadToEndpoints: in northd's flows, the addresses of a service lead by the load balancer of the pod's
// switch to each endpoint, and where there is none to a reset. Other ports and addresses lead by no load balancer and out
// of the cluster, and so do all of them without the services.
func TestService_TracesLeadToEndpoints(t *testing.T) {
	d := startDualStack(t, "ns/from@n1", "ns/near@n1", "ns/far@n2", "ns/web-0@n1", "ns/web-1@n2", "team/guest@n2")
	services := []tracedService{
		{"web", []string{"web-0", "web-1"}, ""}, {"none", nil, ""}, {"near", []string{"near"}, ""}, {"far", []string{"far"}, ""},
		{"self", []string{"from"}, ""}, {"many", []string{"near", "far", "web-0", "web-1", "guest"}, ""},
	}
	for _, without := range []bool{false, true} {
		objects := servicesYAML(d, services)
		if without {
			d.clear()
			objects = ""
		}
		d.write(d.rows(objects))
		d.meetNextHops()
		d.startTracer()
		for family := range families() {
			leadsNowhere(d, netip.AddrPortFrom(clusterIP(9, family), 80))
			leadsNowhere(d, netip.AddrPortFrom(clusterIP(0, family), 81))
			for i, s := range services {
				if address := netip.AddrPortFrom(clusterIP(i, family), 80); without {
					leadsNowhere(d, address)
				} else {
					s.leads(d, address)
				}
			}
		}
	}
}

// leads traces packets to a service until each endpoint has got one: each trace takes any of them.
func (s tracedService) leads(d *dualStack, address netip.AddrPort) {
	d.t.Helper()
	var want []string
	waiting := map[string]bool{}
	for _, pod := range s.pods {
		want = append(want, netip.AddrPortFrom(d.address(pod, contract.FamilyOf(address.Addr())), 8080).String())
		waiting[d.port(pod)] = true
	}
	slices.Sort(want)
	for tries := 0; tries == 0 || len(waiting) > 0; tries++ {
		trace := d.traceOut("from", "tcp", address)
		reset := strings.Contains(trace, "tcp_reset") && reaches(trace, d.port("from"))
		if got := backendsOf(trace); !slices.Equal(got, want) || reset != (len(want) == 0) || tries > 200 {
			d.t.Errorf("%s, of service %s, leads to %v, want %v, reset: %t; after %d traces none reaches %v:\n%s",
				address, s.name, got, want, reset, tries, waiting, trace)
			return
		}
		for port := range waiting {
			if reaches(trace, port) {
				delete(waiting, port)
			}
		}
	}
}

// leadsNowhere traces a packet to an address that no service has.
func leadsNowhere(d *dualStack, address netip.AddrPort) {
	d.t.Helper()
	trace := d.traceOut("from", "tcp", address)
	leads := strings.Contains(trace, "backends=") || strings.Contains(trace, "tcp_reset") || strings.Contains(trace, `output to "ns_`)
	if leads || !reaches(trace, "breth0_n1") {
		d.t.Errorf("%s leads by a load balancer, or not out:\n%s", address, trace)
	}
}
