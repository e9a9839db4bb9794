package plugin

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// holders are the devices that pods have.
type holders map[string]ledger.Claim

func (h holders) Holder(device string) (ledger.Claim, bool) {
	c, ok := h[device]
	return c, ok
}

func (holders) Held(string) error { return nil }

func TestMetrics_CountDevicesByState(t *testing.T) {
	cfg := Defaults()
	cfg.Logger, cfg.InfoDir = slog.New(slog.DiscardHandler), t.TempDir()
	p, err := New(cfg, holders{"0000:03:00.2": {Resource: DefaultResource}})
	if err != nil {
		t.Fatal(err)
	}
	var devices []Device
	for id, problem := range map[string]string{"0000:03:00.2": "", "0000:03:00.3": "", "0000:03:00.4": "", "0000:03:00.5": "no driver is bound"} {
		devices = append(devices, Device{ID: id, PF: PF{Eswitch: vf.Switchdev}, Problem: problem})
	}
	if err := p.Update(devices); err != nil {
		t.Fatal(err)
	}
	const want = `
# HELP ovn_offload_devices Devices that the node offers, by resource and state: free, claimed by a pod, or unhealthy.
# TYPE ovn_offload_devices gauge
ovn_offload_devices{resource="ovn-offload.io/vf",state="claimed"} 1
ovn_offload_devices{resource="ovn-offload.io/vf",state="free"} 2
ovn_offload_devices{resource="ovn-offload.io/vf",state="unhealthy"} 1
`
	if err := testutil.CollectAndCompare(p, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
