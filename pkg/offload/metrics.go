package offload

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxPorts bounds the series: a port has at most 2 directions times 4 places
// times 3 series. Kubernetes' own limit is 110 pods a node by default; ports
// beyond this one count in the node's series only.
const maxPorts = 512

// Metrics is a prometheus.Collector of the newest sample and of the traffic
// since the agent's start.
type Metrics struct {
	flows, outside, malformed, took *prometheus.Desc
	portFlows, packets, bytes       *prometheus.Desc

	mu      sync.Mutex
	sampled bool
	sample  Sample
	ports   map[string]*totals
}

// totals is what a port has carried since it came, by direction.
type totals struct {
	port     Port
	from, to Share
}

// NewMetrics is empty until the first Update.
func NewMetrics() *Metrics {
	const prefix = "ovn_offload_"
	port := []string{"port", "namespace", "pod", "direction", "place"}
	desc := func(name, text string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, text, labels, nil)
	}
	return &Metrics{
		ports:     map[string]*totals{},
		flows:     desc("datapath_flows", "Datapath flows by the place that handles them.", "place"),
		outside:   desc("datapath_flows_outside_hardware", "Datapath flows outside hardware by reason.", "reason"),
		malformed: desc("datapath_malformed_lines", "Lines of the last dump that were not understood."),
		took:      desc("datapath_dump_seconds", "Time that the last dump took."),
		portFlows: desc("port_flows", "Datapath flows of a port; from is what a pod sends.", port...),
		packets:   desc("port_packets_total", "Packets of a port, counted where their way ends.", port...),
		bytes:     desc("port_bytes_total", "Bytes of a port; TC counts them without the Ethernet header.", port...),
	}
}

// Update takes a sample, and the delta to the one before where there is one.
// Counters of a port go when the port does.
func (m *Metrics) Update(s Sample, d *Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Report.Ends = nil // large, and not shown
	m.sample, m.sampled = s, true
	keep := map[string]*totals{}
	for _, p := range s.Report.Ports[:min(len(s.Report.Ports), maxPorts)] {
		keep[p.Name] = &totals{port: p.Port}
		if old := m.ports[p.Name]; old != nil && old.port.Pod == p.Pod {
			keep[p.Name] = old
		}
	}
	m.ports = keep
	if d == nil {
		return
	}
	for _, p := range d.Ports {
		if t := keep[p.Name]; t != nil {
			for _, at := range Places() {
				t.from.At(at).add(*p.From.At(at))
				t.to.At(at).add(*p.To.At(at))
			}
		}
	}
}

// Describe is for the registry.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.flows, m.outside, m.malformed, m.took, m.portFlows, m.packets, m.bytes} {
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
	}
	gauge(m.malformed, float64(m.sample.Report.Malformed))
	gauge(m.took, m.sample.Took.Seconds())
	for _, p := range m.sample.Report.Ports {
		if t := m.ports[p.Name]; t != nil {
			m.port(ch, p, t)
		}
	}
}

// port leaves out a place that the port never used, unless it is hardware.
func (m *Metrics) port(ch chan<- prometheus.Metric, p PortReport, t *totals) {
	for direction, shares := range map[string][2]*Share{"from": {&p.From, &t.from}, "to": {&p.To, &t.to}} {
		for _, at := range Places() {
			now, total := shares[0].At(at), shares[1].At(at)
			if at != Hardware && now.Flows == 0 && total.Packets == 0 {
				continue
			}
			labels := []string{p.Name, p.Pod.Namespace, p.Pod.Name, direction, string(at)}
			ch <- prometheus.MustNewConstMetric(m.portFlows, prometheus.GaugeValue, float64(now.Flows), labels...)
			ch <- prometheus.MustNewConstMetric(m.packets, prometheus.CounterValue, float64(total.Packets), labels...)
			ch <- prometheus.MustNewConstMetric(m.bytes, prometheus.CounterValue, float64(total.Bytes), labels...)
		}
	}
}
