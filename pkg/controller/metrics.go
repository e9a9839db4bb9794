package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// allocations is a prometheus.Collector of who leads, and of what the leader has left to allocate.
type allocations struct {
	controller                 *Controller
	leader, subnets, addresses *prometheus.Desc
}

func newAllocations(c *Controller) allocations {
	return allocations{
		controller: c,
		leader:     prometheus.NewDesc("ovn_offload_leader", "1 while this process leads.", nil, nil),
		subnets:    prometheus.NewDesc("ovn_offload_ipam_subnets", "Node subnets of the cluster, used and free.", []string{"family", "state"}, nil),
		addresses: prometheus.NewDesc("ovn_offload_ipam_addresses", "Addresses for the pods of a node, used and free.",
			[]string{"node", "family", "state"}, nil),
	}
}

// Describe is for the registry.
func (a allocations) Describe(ch chan<- *prometheus.Desc) {
	ch <- a.leader
	ch <- a.subnets
	ch <- a.addresses
}

// Collect is for the registry.
func (a allocations) Collect(ch chan<- prometheus.Metric) {
	leads := a.controller.leading.Load()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if !leads {
		gauge(a.leader, 0)
		return
	}
	gauge(a.leader, 1)
	for _, u := range a.controller.subnets.Usage() {
		gauge(a.subnets, u.Used, u.Family.String(), "used")
		gauge(a.subnets, u.Free, u.Family.String(), "free")
	}
	for _, zone := range a.controller.zones {
		for _, u := range zone.usage() {
			gauge(a.addresses, u.Used, u.Node, u.Family.String(), "used")
			gauge(a.addresses, u.Free, u.Node, u.Family.String(), "free")
		}
	}
}

// usage is of the zone's own nodes.
func (c *Zone) usage() (own []ipam.Usage) {
	for _, u := range c.addresses.Usage() {
		if c.zone.Local == nil || c.zone.Local(u.Node) {
			own = append(own, u)
		}
	}
	return own
}
