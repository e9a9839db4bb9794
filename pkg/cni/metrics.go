package cni

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	commands, stages *prometheus.HistogramVec
	restored         prometheus.Counter
}

// newMetrics registers the histograms; reg may be nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	buckets := []float64{.005, .01, .02, .04, .06, .08, .12, .2, .5, 1, 2, 5, 10, 30, 60, 120}
	m := &metrics{
		commands: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ovn_offload_cni_command_duration_seconds",
			Help: "Time from a CNI command's arrival to its answer.", Buckets: buckets,
		}, []string{"command", "result"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ovn_offload_cni_add_stage_duration_seconds",
			Help: "Time in each stage of CNI ADD: pod, annotation, device, attach, flows.", Buckets: buckets,
		}, []string{"stage"}),
	}
	m.restored = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ovn_offload_cni_devices_restored_total",
		Help: "Pods whose device went away under them and was given back.",
	})
	if reg != nil {
		reg.MustRegister(m.commands, m.stages, m.restored)
	}
	return m
}

func (m *metrics) command(command string, err error, took time.Duration) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.commands.WithLabelValues(command, result).Observe(took.Seconds())
}

func (m *metrics) stage(stage string, took time.Duration) {
	m.stages.WithLabelValues(stage).Observe(took.Seconds())
}
