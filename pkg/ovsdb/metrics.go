package ovsdb

import (
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	connected           prometheus.Gauge
	connections, fenced prometheus.Counter
	operations          *prometheus.CounterVec
	duration            prometheus.Histogram
}

func newMetrics(cfg Config) *metrics {
	labels := prometheus.Labels{"database": cfg.Schema.Model.Name()}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: name, Help: help, ConstLabels: labels}
	}
	m := &metrics{
		connected:   prometheus.NewGauge(prometheus.GaugeOpts(opts("ovn_offload_ovsdb_connected", "1 while the replica follows the database."))),
		connections: prometheus.NewCounter(prometheus.CounterOpts(opts("ovn_offload_ovsdb_connections_total", "Connections made."))),
		fenced:      prometheus.NewCounter(prometheus.CounterOpts(opts("ovn_offload_ovsdb_fenced_total", "Transactions refused because another writer has taken over."))),
		operations:  prometheus.NewCounterVec(prometheus.CounterOpts(opts("ovn_offload_ovsdb_operations_total", "Operations sent.")), []string{"op"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ovn_offload_ovsdb_transaction_duration_seconds", ConstLabels: labels,
			Help: "Time from sending a transaction to its reply.", Buckets: []float64{.01, .1, 1}}), // few: every node has them
	}
	cfg.Registerer.MustRegister(m.connected, m.connections, m.operations, m.duration)
	if cfg.Fence != nil {
		cfg.Registerer.MustRegister(m.fenced)
	}
	return m
}

func (m *metrics) transacted(ops []lib.Operation, took time.Duration) {
	m.duration.Observe(took.Seconds())
	for i := range ops {
		m.operations.WithLabelValues(ops[i].Op).Inc()
	}
}
