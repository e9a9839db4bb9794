//go:build bench

package switchdev

import "testing"

// The services' one endpoint is the pod b, on a's node, or c, on the other.
const nearService, farService = "10.96.0.50", "10.96.0.51"

// TestServices is the table of what runs in hardware for services, and for what becomes of connections
// in hardware when an endpoint leaves.
func TestServices(t *testing.T) {
	w := newWorld(t, true)
	w.services()
	for _, way := range w.ways() {
		t.Run(way.what, way.row)
	}
	w.keep()
	t.Run("endpoint leaves", w.endpointLeaves)
}

// services are load balancers for iperf3 and for probes, with the options that
// the product gives its own.
func (w *world) services() {
	w.endpoint("near", nearService, w.pods["b"].v4)
	w.endpoint("far", farService, w.pods["c"].v4)
	for _, lb := range []string{"near-tcp", "near-udp", "far-tcp", "far-udp"} {
		w.nb("set", "Load_Balancer", lb, "options:reject=true", "options:ct_flush=true", "--", "ls-lb-add", "s1", lb)
	}
	w.sync()
}

// endpoint sets the one of a service, "" none. Pods stay.
func (w *world) endpoint(name, service, pod string) {
	w.t.Helper()
	for _, vip := range [][2]string{{"tcp", "5201"}, {"tcp", "9000"}, {"udp", "9000"}} {
		backend := ""
		if pod != "" {
			backend = pod + ":" + vip[1]
		}
		w.nb("--may-exist", "lb-add", name+"-"+vip[0], service+":"+vip[1], backend, vip[0])
	}
}

func (w *world) ways() []way {
	a, b, c := w.pods["a"], w.pods["b"], w.pods["c"]
	return []way{
		{what: "service, same node", client: a.gate(), server: b.gate(), to: []string{nearService}},
		{what: "service, other node", client: a.gate(), server: c.gate(), to: []string{farService}},
	}
}
