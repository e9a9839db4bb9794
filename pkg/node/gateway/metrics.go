package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
)

// metrics are of the gateway bridge, as the last pass wanted it.
type metrics struct{ flows, nodePorts, external, router, vf prometheus.Gauge }

func newMetrics(r prometheus.Registerer) metrics {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	return metrics{
		flows:     gauge("ovn_offload_gateway_flows", "Flows of the gateway bridge."),
		nodePorts: gauge("ovn_offload_gateway_node_ports", "Node ports that the gateway bridge leads to the router."),
		external:  gauge("ovn_offload_gateway_external_endpoints", "External addresses and ports that it leads there."),
		router:    gauge("ovn_offload_gateway_router_connected", "1 while the gateway router's port is on the bridge."),
		vf:        gauge("ovn_offload_gateway_vf", "1 while a VF has the node's addresses, 0 while the bridge's own interface has."),
	}
}

func (m metrics) observe(w flows.Bridge, flows int) {
	m.flows.Set(float64(flows))
	m.nodePorts.Set(float64(len(w.Services.NodePorts)))
	m.external.Set(float64(len(w.Services.External)))
	m.router.Set(0)
	if len(w.Routers) > 0 {
		m.router.Set(1)
	}
	m.vf.Set(0)
	if w.Host != 0 {
		m.vf.Set(1)
	}
}
