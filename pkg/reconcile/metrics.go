package reconcile

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	depth, waiting, failing, invalid prometheus.Gauge
	failures                         prometheus.Counter
	duration                         prometheus.Summary
}

func newMetrics(cfg Config) *metrics {
	labels := prometheus.Labels{"loop": cfg.Name}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: labels,
		})
	}
	m := &metrics{
		depth:   gauge("ovn_offload_reconcile_dirty_keys", "Keys that wait for a worker."),
		waiting: gauge("ovn_offload_reconcile_waiting_keys", "Keys that wait for a missing fact."),
		failing: gauge("ovn_offload_reconcile_failing_keys", "Keys whose last attempt failed."),
		invalid: gauge("ovn_offload_reconcile_invalid_keys", "Keys whose object is wrong; a change of the object ends it."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ovn_offload_reconcile_failures_total", Help: "Failed attempts.", ConstLabels: labels,
		}),
		duration: prometheus.NewSummary(prometheus.SummaryOpts{ // sum and count: each loop of each node has them
			Name: "ovn_offload_reconcile_batch_duration_seconds", Help: "Time that one batch took.", ConstLabels: labels,
		}),
	}
	cfg.Registerer.MustRegister(m.depth, m.waiting, m.failing, m.invalid, m.failures, m.duration)
	return m
}
