package controller

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// allocations is a prometheus.Collector of who leads, and of what the leader has left to allocate.
type allocations struct {
	controller                           *Controller
	leader, subnets, addresses, networks *prometheus.Desc
}

func newAllocations(c *Controller) allocations {
	return allocations{
		controller: c,
		leader:     prometheus.NewDesc("ovn_offload_leader", "1 while this process leads.", nil, nil),
		subnets:    prometheus.NewDesc("ovn_offload_ipam_subnets", "Node subnets of the cluster, used and free.", []string{"family", "state"}, nil),
		addresses: prometheus.NewDesc("ovn_offload_ipam_addresses", "Addresses for the pods of a node, used and free.",
			[]string{"node", "family", "state"}, nil),
		networks: prometheus.NewDesc("ovn_offload_ipam_network_addresses", "Addresses for the pods of a further network, or of a NamespaceSubnet, used and free.",
			[]string{"kind", "network", "family", "state"}, nil),
	}
}

// Describe is for the registry.
func (a allocations) Describe(ch chan<- *prometheus.Desc) {
	ch <- a.leader
	ch <- a.subnets
	ch <- a.addresses
	ch <- a.networks
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
	for _, u := range a.controller.networkUsage() {
		gauge(a.networks, u.Used, u.Kind, u.Name, u.Family.String(), "used")
		gauge(a.networks, u.Free, u.Kind, u.Name, u.Family.String(), "free")
	}
}

// networkUsage is that of the zone with the fewest free addresses.
func (c *Controller) networkUsage() []ipam.NetworkUsage {
	type key struct {
		kind, name string
		family     contract.Family
	}
	all := map[key]ipam.NetworkUsage{}
	for _, zone := range c.zones {
		for _, u := range ipam.NetworksUsage(zone.addresses) {
			k := key{u.Kind, u.Name, u.Family}
			if other, ok := all[k]; !ok || u.Free < other.Free {
				all[k] = u
			}
		}
	}
	return slices.Collect(maps.Values(all))
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
