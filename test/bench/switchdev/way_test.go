//go:build bench

package switchdev

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// gate is the port of a NIC by which what a namespace sends comes into the switch.
type gate struct {
	ns, port string
	node     *ovsNode
}

func (e *endpoint) gate() gate { return gate{e.name, e.rep, e.node} }

func (g gate) sent(t *testing.T) uint64 {
	t.Helper()
	return counter(t, g.ns, "eth0", "tx_bytes")
}

// seen counts bytes that came to software.
func (g gate) seen(t *testing.T) uint64 {
	t.Helper()
	return counter(t, g.node.name, g.port, "rx_bytes")
}

// way is a row of the table: TCP between two, with the words by which iperf3 finds
// the server.
type way struct {
	what           string
	client, server gate
	to             []string
}

// words run iperf3; more of them may turn the direction.
func (w way) words(seconds string, more ...string) []string {
	words := append([]string{"iperf3", "-t", seconds, "-b", "8M", "--connect-timeout", "5000", "-c"}, w.to...)
	return inside(w.client.ns, append(words, more...)...)
}

// iperf gives the bytes that the sender's device sent, and those that came to
// software at its gate.
func (w way) iperf(t *testing.T, seconds string, more ...string) (sent, software uint64) {
	t.Helper()
	from := w.client
	if len(more) > 0 {
		from = w.server
	}
	before, seen := from.sent(t), from.seen(t)
	run(t, w.words(seconds, more...)...)
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
			w.begin(t, back...)
			before := from.node.sample()
			sent, software := w.iperf(t, "4", back...)
			d := delta(t, before, from.node.sample(), from.port)
			t.Logf("%d bytes sent, %d came to software; %d of %d in hardware; lasting outside: %+v",
				sent, software, d.From.Hardware.Bytes, d.From.Sum().Bytes, d.Lasting)
			if sent < enough || d.From.Hardware.Bytes < sent/10*9 || d.From.Hardware.Bytes*10 < d.From.Sum().Bytes*9 || software > sent/10 {
				t.Errorf("%d bytes sent, %d came to software; %+v", sent, software, d.From)
			}
		})
	}
}

// begin waits until the server is reached, and has OVS make its flows.
func (w way) begin(t *testing.T, more ...string) {
	t.Helper()
	eventually(t, w.what+" is reached", patience, func() bool {
		out, err := try(w.words("2", more...)...)
		if err != nil {
			t.Log(out)
		}
		return err == nil
	})
}

// inSoftware holds that hardware has nothing of a way, because it is off.
func (w way) inSoftware(t *testing.T) {
	w.begin(t)
	sent, software := w.iperf(t, "2")
	report := port(t, w.client.node.sample().Report, w.client.port)
	if n := len(w.client.node.flows("offloaded")); n != 0 || report.From.Hardware.Flows != 0 || sent < enough || software < sent/10*9 {
		t.Errorf("%d flows in hardware, %+v, %d of %d bytes came to software", n, report.From, software, sent)
	}
	if len(report.Outside) == 0 || report.Outside[0].Reason != offload.ReasonOff {
		t.Errorf("the reason: %+v", report.Outside)
	}
}
