package gateway

import (
	"errors"
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// newKernelBench is a settled node with the kernel's datapath, which has the NIC.
func newKernelBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.cfg.Datapath = DatapathSystem
	b.ovnController()
	converge(t, b.setup(t))
	b.host.datapath = "eth0"
	return b
}

// TestSwitchAbsent_NICGetsAddressesBack: while the process is absent for a restart only, nothing changes. When it is back, the
// bridge has the addresses again, whether or not the start script has dropped the NIC's port.
func TestSwitchAbsent_NICGetsAddressesBack(t *testing.T) {
	for name, dropped := range map[string]bool{"its port is kept": false, "its port was dropped": true} {
		t.Run(name, func(t *testing.T) {
			b := newKernelBench(t)
			s := b.setup(t)
			absent := false
			s.deps.SwitchAbsent = func() bool { return absent }
			converge(t, s)
			b.expect(t, "breth0")
			if b.host.datapath == "" {
				t.Fatal("during a restart the NIC has left the datapath")
			}

			absent = true
			if err := s.pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) {
				t.Errorf("pass without ovs-vswitchd: %v", err)
			}
			b.expect(t, "eth0")
			if b.host.datapath != "" {
				t.Error("the datapath still has the NIC")
			}
			before := b.host.changes
			_ = s.pass(t.Context())
			if got := b.host.changes - before; got > 1 { // the rows
				t.Errorf("a further pass makes %d changes", got)
			}

			absent = false
			if dropped {
				b.db.forgetTransient()
			}
			converge(t, s)
			b.expect(t, "breth0")
			if ports := b.ports(); !slices.Contains(ports, "eth0") {
				t.Errorf("the bridge has the ports %v", ports)
			}
		})
	}
}

// TestSwitchAbsent_PortThatDoesNotOpenLeavesAddresses: the bridge that is back has lost its way to the network.
func TestSwitchAbsent_PortThatDoesNotOpenLeavesAddresses(t *testing.T) {
	b := newKernelBench(t)
	s := b.setup(t)
	nodetest.Must(t, s.FailBack(t.Context()))
	b.expect(t, "eth0")
	if b.host.datapath != "" {
		t.Error("the datapath still has the NIC")
	}
	b.db.forgetTransient()
	b.db.refuse = "eth0"
	if err := s.pass(t.Context()); err == nil {
		t.Error("pass over a port that does not open: no error")
	}
	b.expect(t, "eth0")
}
