package controller

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// TestMetrics_OfLeaderOnly: a standby has allocated nothing, and says so.
func TestMetrics_OfLeaderOnly(t *testing.T) {
	w := newWorld(t, testNode("n1"))
	w.eventually("a subnet in use", func() bool { return gauge(t, w.registry, "ovn_offload_ipam_subnets") > 0 })
	if got := gauge(t, w.registry, "ovn_offload_leader"); got != 1 {
		t.Errorf("leader %v", got)
	}
	w.eventually("addresses of the node", func() bool { return gauge(t, w.registry, "ovn_offload_ipam_addresses") > 200 })

	registry := prometheus.NewRegistry()
	if _, err := New(t.Context(), Config{
		Plan: ipam.Defaults(), Zones: []ZoneConfig{{}}, Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	}, apitest.Client(fake.NewClientset())); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ovn_offload_leader", "ovn_offload_ipam_subnets", "ovn_offload_ipam_addresses"} {
		if got := gauge(t, registry, name); got != 0 {
			t.Errorf("%s of a standby: %v", name, got)
		}
	}
}
