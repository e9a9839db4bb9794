package dpu

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

type metrics struct{ statuses *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{statuses: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ovn_offload_dpu_pod_status_total",
		Help: "Changes of pods' connection status that the DPU has written: Ready, Error, or removed.",
	}, []string{"status"})}
	reg.MustRegister(m.statuses)
	return m
}

func (m *metrics) status(s *contract.DPUStatus) {
	label := "removed"
	if s != nil {
		label = s.Status
	}
	m.statuses.WithLabelValues(label).Inc()
}
