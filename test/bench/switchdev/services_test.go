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

// way is a row of the table: TCP of one pod to an address of another.
type way struct {
	what           string
	client, server *endpoint
	to             string
}

func (w *world) ways() []way {
	a, b, c := w.pods["a"], w.pods["b"], w.pods["c"]
	return []way{
		{"service, same node", a, b, nearService},
		{"service, other node", a, c, farService},
	}
}

// iperf gives the bytes that the sender's device sent, and those that came to
// software at its representor. Words may turn the direction.
func (w way) iperf(t *testing.T, seconds string, words ...string) (sent, software uint64) {
	t.Helper()
	from := w.client
	if len(words) > 0 {
		from = w.server
	}
	before, seen := from.sent(t), from.seen(t)
	run(t, append(w.client.iperf(w.to, seconds), words...)...)
	return from.sent(t) - before, from.seen(t) - seen
}

// row measures a way in both directions.
func (w way) row(t *testing.T) {
	for _, back := range [][]string{nil, {"-R"}} {
		from, name := w.client, "there"
		if back != nil {
			from, name = w.server, "back"
		}
		t.Run(name, func(t *testing.T) {
			w.iperf(t, "2", back...) // OVS makes its flows
			before := from.node.sample()
			sent, software := w.iperf(t, "4", back...)
			d := delta(t, before, from.node.sample(), from.rep)
			t.Logf("%d bytes sent, %d came to the representor; %d of %d in hardware; lasting outside: %+v",
				sent, software, d.From.Hardware.Bytes, d.From.Sum().Bytes, d.Lasting)
			if sent < enough || d.From.Hardware.Bytes < sent/10*9 || d.From.Hardware.Bytes*10 < d.From.Sum().Bytes*9 || software > sent/10 {
				t.Errorf("%d bytes sent, %d came to the representor; %+v", sent, software, d.From)
			}
		})
	}
}
