package plugin

import "github.com/prometheus/client_golang/prometheus"

// descDevices is built anew by each plugin, as collectors have it.
func descDevices() *prometheus.Desc {
	return prometheus.NewDesc("ovn_offload_devices",
		"Devices that the node offers, by resource and state: free, claimed by a pod, or unhealthy.",
		[]string{"resource", "state"}, nil)
}

// Describe makes a Plugin a prometheus.Collector.
func (p *Plugin) Describe(out chan<- *prometheus.Desc) { out <- descDevices() }

// Collect counts the devices of each resource.
func (p *Plugin) Collect(out chan<- prometheus.Metric) {
	desc := descDevices()
	for resource, devices := range p.Offered() {
		count := map[string]int{"free": 0, "claimed": 0, "unhealthy": 0}
		for _, d := range devices {
			_, claimed := p.claims.Holder(d.ID)
			switch {
			case claimed:
				count["claimed"]++
			case d.Problem != "":
				count["unhealthy"]++
			default:
				count["free"]++
			}
		}
		for state, n := range count {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), resource, state)
		}
	}
}
