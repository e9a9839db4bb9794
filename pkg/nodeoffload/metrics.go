package nodeoffload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// settings is a prometheus.Collector of the settings of OVS and of the uplinks of NICs. Without an answer of OVS there
// are no series of the settings.
type settings struct {
	sampling              *Sampling
	wanted, inForce, link *prometheus.Desc
}

func newSettings(s *Sampling) settings {
	return settings{
		sampling: s,
		wanted:   prometheus.NewDesc("ovn_offload_hw_offload_wanted", "1 while hw-offload is set in OVS.", nil, nil),
		inForce:  prometheus.NewDesc("ovn_offload_hw_offload_in_force", "1 while the running ovs-vswitchd offloads.", nil, nil),
		link:     prometheus.NewDesc("ovn_offload_nic_link_up", "1 while the uplink of a PF in switchdev mode is up and has a carrier.", []string{"pf"}, nil),
	}
}

// Describe is for the registry.
func (c settings) Describe(ch chan<- *prometheus.Desc) { ch <- c.wanted; ch <- c.inForce; ch <- c.link }

// Collect is for the registry.
func (c settings) Collect(ch chan<- prometheus.Metric) {
	flag := func(d *prometheus.Desc, is bool, labels ...string) {
		value := 0.
		if is {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if observed, ok := c.sampling.Observed(); ok {
		now := observed.Settings()
		flag(c.wanted, observed.Wanted())
		flag(c.inForce, now.HWOffload && !now.RestartDue)
	}
	if inv := c.sampling.deps.Inventory(); inv != nil {
		c.links(inv.PFs, flag)
	}
}

func (c settings) links(pfs []vf.PF, flag func(*prometheus.Desc, bool, ...string)) {
	for i := range pfs {
		if up := pfs[i].Uplink(); up != nil && pfs[i].Switchdev() {
			flag(c.link, up.Up && up.Carrier, up.Name)
		}
	}
}
