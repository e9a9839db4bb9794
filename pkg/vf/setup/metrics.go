package setup

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Describe makes a Runner a prometheus.Collector of the states of its policies.
func (r *Runner) Describe(ch chan<- *prometheus.Desc) { ch <- descDevices() }

// Collect counts the NICs in each state.
func (r *Runner) Collect(ch chan<- prometheus.Metric) {
	count := map[v1alpha1.PolicyState]int{}
	for _, result := range r.Results() {
		count[result.State]++
	}
	for _, state := range []v1alpha1.PolicyState{
		v1alpha1.PolicyApplied, v1alpha1.PolicyPending, v1alpha1.PolicyPlanned, v1alpha1.PolicyRefused, v1alpha1.PolicyConflict, v1alpha1.PolicyFailed,
	} {
		ch <- prometheus.MustNewConstMetric(descDevices(), prometheus.GaugeValue, float64(count[state]), string(state))
	}
}

func descDevices() *prometheus.Desc {
	return prometheus.NewDesc("ovn_offload_offloadpolicy_devices",
		"NICs of the node, and its OVS, that OffloadPolicies are about, by state.", []string{"state"}, nil)
}
