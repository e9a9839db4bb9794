package ovsdb

import (
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	connected   prometheus.Gauge
	connections prometheus.Counter
	fenced      prometheus.Counter
	operations  *prometheus.CounterVec
	duration    prometheus.Histogram
}

func newMetrics(cfg Config) *metrics {
	labels := prometheus.Labels{"database": cfg.Schema.Model.Name()}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "ovn_offload", Subsystem: "ovsdb", Name: name, Help: help, ConstLabels: labels}
	}
	m := &metrics{
		connected:   prometheus.NewGauge(prometheus.GaugeOpts(opts("connected", "1 while the replica follows the database."))),
		connections: prometheus.NewCounter(prometheus.CounterOpts(opts("connections_total", "Connections made."))),
		fenced:      prometheus.NewCounter(prometheus.CounterOpts(opts("fenced_total", "Transactions refused because another writer has taken over."))),
		operations:  prometheus.NewCounterVec(prometheus.CounterOpts(opts("operations_total", "Operations sent.")), []string{"op"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "ovn_offload", Subsystem: "ovsdb", Name: "transaction_duration_seconds", ConstLabels: labels,
			Help: "Time from sending a transaction to its reply.", Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
	}
	cfg.Registerer.MustRegister(m.connected, m.connections, m.fenced, m.operations, m.duration)
	return m
}

func (m *metrics) transacted(ops []lib.Operation, took time.Duration) {
	m.duration.Observe(took.Seconds())
	for i := range ops {
		m.operations.WithLabelValues(ops[i].Op).Inc()
	}
}
