package dpu

import (
	"log/slog"
	"sync/atomic"
)

// PodMTU is the MTU of pods on a host with a DPU: as configured, or as the DPU says of its underlay.
type PodMTU struct {
	configured int
	now        atomic.Int64
	log        *slog.Logger
}

// NewPodMTU makes a PodMTU; 0 is not configured.
func NewPodMTU(configured int, log *slog.Logger) *PodMTU {
	m := &PodMTU{configured: configured, log: log}
	m.now.Store(int64(configured))
	return m
}

// Get gives the MTU in bytes, 0 while it is not known.
func (m *PodMTU) Get() int { return int(m.now.Load()) }

// Follow takes the MTU from the DPU. It reports whether pods had another MTU before.
func (m *PodMTU) Follow(h Health) bool {
	if m.configured != 0 || h.PodMTU == 0 {
		return false
	}
	was := m.now.Swap(int64(h.PodMTU))
	if was == 0 || was == int64(h.PodMTU) {
		return false
	}
	m.log.Info("new pods get another MTU, as the DPU says", "mtu", h.PodMTU, "former", was)
	return true
}
