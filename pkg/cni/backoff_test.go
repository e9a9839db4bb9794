package cni

import (
	"errors"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// TestSweep_DeviceOutOfReachIsNotTriedAtEachSweep: a pod with NET_ADMIN has moved its VF to
// a namespace of its own. Other pods' events ask for sweeps.
func TestSweep_DeviceOutOfReachIsNotTriedAtEachSweep(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.net.AddNS("/nested")
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	l, err := pod.Link("eth0")
	must(t, err)
	must(t, pod.MoveLink(netdev.Move{Index: l.Index, To: "/nested", Name: "eth0"}))
	tries := 0
	n.net.FailWith(func(op, name string) error {
		if op == "SetLink" && name == "rep0" { // as each try does
			tries++
		}
		return nil
	})
	var first error
	for i := range 10 {
		err := n.srv.Sweep(t.Context())
		if err == nil {
			t.Fatal("a sweep succeeded without the device")
		}
		if first == nil {
			first = err
		}
		if err.Error() != first.Error() {
			t.Errorf("sweep %d: %v, and the first %v", i, err, first)
		}
	}
	if tries != 1 {
		t.Errorf("%d tries in 10 sweeps, want 1", tries)
	}
	n.net.RemoveNS("/nested") // the kernel brings it to the node
	n.net.FailWith(nil)
	must(t, n.srv.Sweep(t.Context()))
	n.wantIn("/ns/a", sandboxA)
}

// TestBackoff_GrowsAndEnds counts the tries of an hour with a sweep each second.
func TestBackoff_GrowsAndEnds(t *testing.T) {
	b := backoff{of: map[claimKey]retry{}}
	c, other := ledger.Claim{Device: vf0, Sandbox: "a"}, ledger.Claim{Device: vf1, Sandbox: "b"}
	tries, start := 0, time.Now()
	for s := range 3600 {
		_ = b.try(c, start.Add(time.Duration(s)*time.Second), func() error { tries++; return errors.New("refused") })
	}
	if tries != 12 { // at 0, 5, 15, 35, ... s, then each ten minutes
		t.Errorf("%d tries", tries)
	}
	if err := b.try(other, start, func() error { return nil }); err != nil {
		t.Errorf("another claim: %v", err)
	}
	b.keep(nil)
	if len(b.of) != 0 {
		t.Errorf("claims that have ended are remembered: %v", b.of)
	}
}
