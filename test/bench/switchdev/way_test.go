//go:build bench

package switchdev

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// gate is the port of a NIC by which what a namespace sends on one of its links comes into the switch.
type gate struct {
	ns, link, port string
	node           *ovsNode
}

func (e *endpoint) gate() gate { return gate{e.name, "eth0", e.rep, e.node} }

// wire is the gate of what is outside.
func (n *ovsNode) wire() gate { return gate{outside, "eth0", n.uplink, n} }

func (g gate) sent(t *testing.T) uint64 {
	t.Helper()
	return counter(t, g.ns, g.link, "tx_bytes")
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

// words run iperf3 in both directions at once.
func (w way) words(seconds string) []string {
	words := append([]string{"iperf3", "--bidir", "-t", seconds, "-b", "8M", "--connect-timeout", "5000", "-c"}, w.to...)
	return inside(w.client.ns, words...)
}

// ofTier are all ways in the full tier. The gate has each of them once: the ways, first
// all of IPv4 and then all of IPv6, in turns in one family and the other.
func ofTier(all []way) []way {
	if tier.IsFull() {
		return all
	}
	kinds := len(all) / len(families())
	var out []way
	for i := range kinds {
		out = append(out, all[i+i%len(families())*kinds])
	}
	return out
}

// end is what became of the bytes that one end of a way sent: of those that came to
// software at its gate, and of what pkg/offload counts there.
type end struct {
	gate
	bytes, software uint64
	counted         offload.PortDelta
	// packets are those that TC's rules counted in hardware, and those that the CPU saw.
	packets netdev.Counters
	// exposed are the node's metrics of the same time, by name and label.
	exposed map[string]float64
}

// measure has both ends send for some seconds.
func (w way) measure(t *testing.T, seconds string) (ends [2]end) {
	t.Helper()
	var before [2]offload.Sample
	for i, g := range []gate{w.client, w.server} {
		ends[i] = end{gate: g, bytes: g.sent(t), software: g.seen(t), packets: g.node.mustCount(g.port)}
		before[i] = g.node.sample()
	}
	run(t, w.words(seconds)...)
	for i, e := range ends { // at once: Open vSwitch deletes rules that are idle, and counters with them
		ends[i].packets = since(e.packets, e.node.mustCount(e.port))
	}
	for i, e := range ends {
		after := e.node.sample()
		ends[i].counted, ends[i].exposed = delta(t, before[i], after, e.port), exposed(t, before[i], after)
		if n := ends[i].exposed["ovn_offload_outside_packets_total unknown"]; n > 0 {
			t.Errorf("on %s %.0f packets are outside hardware for no known reason", e.node.name, n)
		}
		ends[i].bytes, ends[i].software = e.sent(t)-e.bytes, e.seen(t)-e.software
	}
	return ends
}

// counters reads those of a port as the node's agent does.
func (n *ovsNode) counters(port string) (netdev.Counters, error) {
	ns, err := netdev.Open("/run/netns/" + n.name)
	if err != nil {
		return netdev.Counters{}, err
	}
	defer ns.Close()
	return ns.Counters(port)
}

func (n *ovsNode) rules(port string) ([]tcrule.Rule, error) {
	ns, err := netdev.Open("/run/netns/" + n.name)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return tcrule.Of(ns, port)
}

func (n *ovsNode) mustCount(port string) netdev.Counters {
	n.Helper()
	c, err := n.counters(port)
	if err != nil {
		n.Fatal(err)
	}
	return c
}

// since is what came between two looks. Rules that have gone take their counters with them.
func since(before, now netdev.Counters) netdev.Counters {
	if now.Hardware >= before.Hardware {
		now.Hardware -= before.Hardware
	}
	now.Software -= before.Software
	return now
}

// exposed gathers the metrics of a node that has seen two samples.
func exposed(t *testing.T, before, after offload.Sample) map[string]float64 {
	t.Helper()
	metrics, delta := offload.NewMetrics(offload.DetailNamespace), offload.Compare(before, after)
	metrics.Update(before, nil)
	metrics.Update(after, &delta)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			all[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// row holds that nearly all of a way is in hardware, in both directions.
func (w way) row(t *testing.T) {
	w.begin(t)
	for i, e := range w.measure(t, "4") {
		from := e.counted.From
		seen := fmt.Sprintf("%s: %d bytes sent, %d came to software; %d of %d in hardware; lasting outside: %+v",
			[]string{"there", "back"}[i], e.bytes, e.software, from.Hardware.Bytes, from.Sum().Bytes, e.counted.Lasting)
		t.Log(seen)
		if e.bytes < enough || from.Hardware.Bytes < e.bytes/10*9 || from.Hardware.Bytes*10 < from.Sum().Bytes*9 || e.software > e.bytes/10 {
			t.Error("not in hardware, ", seen)
		}
		if e.packets.Hardware == 0 || e.packets.Software > e.packets.Hardware/4 {
			t.Errorf("the rules of TC and the port of %s do not say hardware: %+v", e.ns, e.packets)
		}
		if hardware := e.exposed["ovn_offload_datapath_bytes_total hardware"]; hardware < float64(e.bytes/10*9) {
			t.Errorf("the metrics of the node have %.0f bytes in hardware: %v", hardware, e.exposed)
		}
	}
}

// begin waits until the server is reached, and has OVS make its flows.
func (w way) begin(t *testing.T) {
	t.Helper()
	eventually(t, w.what+" is reached", patience, func() bool {
		out, err := try(w.words("2")...)
		if err != nil {
			t.Log(out)
		}
		return err == nil
	})
}

// inSoftware holds that hardware has nothing of a way, because it is off.
func (w way) inSoftware(t *testing.T) {
	w.begin(t)
	for _, e := range w.measure(t, "2") {
		if n := len(e.node.flows("offloaded")); n != 0 || e.counted.From.Hardware.Bytes != 0 || e.bytes < enough || e.software < e.bytes/10*9 {
			t.Errorf("%d flows in hardware, %+v, %d of %d bytes came to software", n, e.counted.From, e.software, e.bytes)
		}
		if e.packets.Hardware != 0 || e.packets.Software == 0 {
			t.Errorf("without hw-offload, the rules of TC and the port of %s do not say software: %+v", e.ns, e.packets)
		}
		if e.exposed["ovn_offload_datapath_packets_total hardware"] != 0 || e.exposed["ovn_offload_outside_packets_total offload-off"] == 0 {
			t.Errorf("the metrics of the node: %v", e.exposed)
		}
	}
	report := port(t, w.client.node.sample().Report, w.client.port)
	if len(report.Outside) == 0 || report.Outside[0].Reason != offload.ReasonOff {
		t.Errorf("the reason: %+v", report.Outside)
	}
}

// fromVeth holds that what a veth sends is in software while OVS offloads, and why.
func (w way) fromVeth(t *testing.T) {
	w.begin(t)
	e := w.measure(t, "2")[0]
	if e.counted.From.Hardware.Bytes != 0 || e.packets.Hardware != 0 || e.bytes < enough || e.software < e.bytes/10*9 {
		t.Errorf("of a veth: %+v, %d of %d bytes came to software, by the rules of TC %+v", e.counted.From, e.software, e.bytes, e.packets)
	}
	report := port(t, e.node.sample().Report, e.port)
	if len(report.Outside) == 0 || report.Outside[0].Detail != "not a representor" {
		t.Errorf("the reason: %+v", report.Outside)
	}
}
