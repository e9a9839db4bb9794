package reconcile

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	depth, waiting, failing, invalid prometheus.Gauge
	failures                         prometheus.Counter
	duration                         prometheus.Histogram
}

func newMetrics(cfg Config) *metrics {
	labels := prometheus.Labels{"loop": cfg.Name}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "ovn_offload", Subsystem: "reconcile", Name: name, Help: help, ConstLabels: labels,
		})
	}
	m := &metrics{
		depth:   gauge("dirty_keys", "Keys that wait for a worker."),
		waiting: gauge("waiting_keys", "Keys that wait for a missing fact."),
		failing: gauge("failing_keys", "Keys whose last attempt failed."),
		invalid: gauge("invalid_keys", "Keys whose object is wrong; a change of the object ends it."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "ovn_offload", Subsystem: "reconcile", Name: "failures_total",
			Help: "Failed attempts.", ConstLabels: labels,
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "ovn_offload", Subsystem: "reconcile", Name: "batch_duration_seconds",
			Help: "Time that one batch took.", ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
	}
	cfg.Registerer.MustRegister(m.depth, m.waiting, m.failing, m.invalid, m.failures, m.duration)
	return m
}
