package relay

import "github.com/prometheus/client_golang/prometheus"

// Register adds the metrics.
func (g *Gathered) Register(registry prometheus.Registerer) {
	registry.MustRegister(agentsCollector{g, prometheus.NewDesc("ovn_offload_relay_agents", "Agents that the relay asks for summaries, by their last answer.", []string{"state"}, nil)})
}

type agentsCollector struct {
	*Gathered
	agents *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c agentsCollector) Describe(to chan<- *prometheus.Desc) { to <- c.agents }

// Collect implements prometheus.Collector.
func (c agentsCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to <- prometheus.MustNewConstMetric(c.agents, prometheus.GaugeValue, float64(len(c.nodes)), "answers")
	to <- prometheus.MustNewConstMetric(c.agents, prometheus.GaugeValue, float64(len(c.failed)), "silent")
}
