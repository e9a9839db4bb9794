package offload

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is a prometheus.Collector of the newest sample and of the traffic since the agent's start. A counter sums what
// Compare finds between samples, so it never goes back when flows end.
type Metrics struct {
	flows, outside, malformed, took, outsidePackets *prometheus.Desc
	node, namespace, pod                            counters

	mu      sync.Mutex
	sampled bool
	sample  Sample
	sums    sums
}

// counters are of the packets and bytes of one kind of traffic.
type counters struct{ packets, bytes *prometheus.Desc }

// NewMetrics is empty until the first Update.
func NewMetrics(detail Detail) *Metrics {
	desc := func(name, text string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, text, labels, nil)
	}
	return &Metrics{
		sums:      newSums(detail),
		flows:     desc("ovn_offload_datapath_flows", "Datapath flows by the place that handles them.", "place"),
		outside:   desc("ovn_offload_datapath_flows_outside_hardware", "Datapath flows outside hardware by reason.", "reason"),
		malformed: desc("ovn_offload_datapath_malformed_lines", "Lines of the last dump that were not understood."),
		took:      desc("ovn_offload_datapath_dump_seconds", "Time that the last dump took."),

		outsidePackets: desc("ovn_offload_outside_packets_total", "Packets outside hardware by reason.", "reason"),
		node: counters{
			desc("ovn_offload_datapath_packets_total", "Packets of the node by the place that handled them.", "place"),
			desc("ovn_offload_datapath_bytes_total", "Bytes of the node; TC counts them without the Ethernet header.", "place"),
		},
		namespace: counters{
			desc("ovn_offload_namespace_packets_total", "Packets that pods of a namespace sent and received.", "namespace", "place"),
			desc("ovn_offload_namespace_bytes_total", "Bytes that pods of a namespace sent and received.", "namespace", "place"),
		},
		pod: counters{
			desc("ovn_offload_pod_packets_total", "Packets that a pod sent and received.", "namespace", "pod", "place"),
			desc("ovn_offload_pod_bytes_total", "Bytes that a pod sent and received.", "namespace", "pod", "place"),
		},
	}
}

// Update takes a sample, and the delta to the one before where there is one.
func (m *Metrics) Update(s Sample, d *Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Report.Ends = nil // large, and not shown
	m.sample, m.sampled = s, true
	m.sums.update(s, d)
}

// Describe is for the registry.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.flows, m.outside, m.malformed, m.took, m.outsidePackets,
		m.node.packets, m.node.bytes, m.namespace.packets, m.namespace.bytes, m.pod.packets, m.pod.bytes,
	} {
		ch <- d
	}
}

// Collect is for the registry.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sampled {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, at := range Places() {
		gauge(m.flows, float64(m.sample.Report.Total.At(at).Flows), string(at))
	}
	reasons := map[Reason]int{}
	for _, c := range m.sample.Report.Outside {
		reasons[c.Reason] += c.Flows
	}
	for _, r := range Reasons() {
		gauge(m.outside, float64(reasons[r]), string(r))
		ch <- prometheus.MustNewConstMetric(m.outsidePackets, prometheus.CounterValue, float64(m.sums.outside[r]), string(r))
	}
	gauge(m.malformed, float64(m.sample.Report.Malformed))
	gauge(m.took, m.sample.Took.Seconds())
	m.node.collect(ch, &m.sums.total)
	for name, sum := range m.sums.namespaces {
		m.namespace.collect(ch, &sum.Share, name)
	}
	for _, pod := range m.sums.shown() {
		m.pod.collect(ch, &m.sums.pods[pod].Share, pod.Namespace, pod.Name)
	}
}

// collect gives the packets and bytes of all places, also of those without any: a counter that begins with the first
// packet would keep this packet from a rate.
func (c counters) collect(ch chan<- prometheus.Metric, s *Share, labels ...string) {
	for _, at := range Places() {
		labels := append(labels[:len(labels):len(labels)], string(at))
		ch <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(s.At(at).Packets), labels...)
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.CounterValue, float64(s.At(at).Bytes), labels...)
	}
}
