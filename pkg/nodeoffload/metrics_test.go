package nodeoffload

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// TestSettings_WantedAndInForce: hw-offload that was set while ovs-vswitchd ran is wanted, and not in force.
func TestSettings_WantedAndInForce(t *testing.T) {
	running, err := offload.LoadRunning(filepath.Join(t.TempDir(), "running"))
	if err != nil {
		t.Fatal(err)
	}
	ovs := &fakeOVS{config: map[string]string{}, known: inventory(t, "connectx6dx-switchdev")}
	registry := prometheus.NewPedanticRegistry()
	NewSampling(SamplingDeps{
		Switch: ovs, DB: ovs, Running: running, Inventory: ovs.inventory, Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	check := func(when, wanted, inForce string) {
		t.Helper()
		want := "# HELP ovn_offload_hw_offload_in_force 1 while the running ovs-vswitchd offloads.\n# TYPE ovn_offload_hw_offload_in_force gauge\n" +
			"ovn_offload_hw_offload_in_force " + inForce + "\n" +
			"# HELP ovn_offload_hw_offload_wanted 1 while hw-offload is set in OVS.\n# TYPE ovn_offload_hw_offload_wanted gauge\n" +
			"ovn_offload_hw_offload_wanted " + wanted + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "ovn_offload_hw_offload_in_force", "ovn_offload_hw_offload_wanted"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	check("off", "0", "0")
	ovs.config[offload.HWOffloadKey] = "true"
	check("set while ovs-vswitchd runs", "1", "0")
	const links = "# HELP ovn_offload_nic_link_up 1 while the uplink of a PF in switchdev mode is up and has a carrier.\n" +
		"# TYPE ovn_offload_nic_link_up gauge\novn_offload_nic_link_up{pf=\"ens1f0np0\"} 1\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(links), "ovn_offload_nic_link_up"); err != nil {
		t.Error(err)
	}
	ovs.set(func() { ovs.away = errors.New("away") })
	if n, err := testutil.GatherAndCount(registry, "ovn_offload_hw_offload_wanted", "ovn_offload_hw_offload_in_force"); n != 0 || err != nil {
		t.Errorf("%d series while OVS does not answer, %v", n, err)
	}
}
