package cni

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	commands *prometheus.HistogramVec
	stages   *prometheus.SummaryVec
	restored prometheus.Counter
}

// newMetrics registers the metrics; reg may be nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		commands: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ovn_offload_cni_command_duration_seconds",
			Help: "Time from a CNI command's arrival to its answer.", Buckets: []float64{.2, .5, 1, 2, 10}, // few: every node has them
		}, []string{"command", "result"}),
		stages: prometheus.NewSummaryVec(prometheus.SummaryOpts{ // sum and count: each stage of each node has them
			Name: "ovn_offload_cni_add_stage_duration_seconds",
			Help: "Time in each stage of CNI ADD: pod, annotation, device, attach, flows.",
		}, []string{"stage"}),
	}
	m.restored = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ovn_offload_cni_devices_restored_total",
		Help: "Pods whose device went away under them and was given back.",
	})
	for _, command := range []string{"ADD", "DEL"} { // a counter that begins with the first failure would keep it from a rate
		m.commands.WithLabelValues(command, "ok")
		m.commands.WithLabelValues(command, "error")
	}
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
