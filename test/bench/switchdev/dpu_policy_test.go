//go:build bench

package switchdev

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestDPU_PolicyMakesVFsOfHost: on a host with a DPU, an OffloadPolicy makes the VFs on which pods then run, with traffic in
// the DPU's NIC. Without the policy there are none, and while a pod has one the VFs stay.
func TestDPU_PolicyMakesVFsOfHost(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "pkg/vf/setup has the same without packets")
	onHost(t, "TestInsideDPUPolicy")
}

func TestInsideDPUPolicy(t *testing.T) {
	b := newHandDPUBench(t)
	b.start()
	b.noFunctions()
	n := b.host.policies()
	policy := &v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}, Spec: v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{b.pci}}, NumVFs: 4, EswitchMode: "legacy",
	}}
	n.set(policy)
	n.await(t, "p Refused")
	if got := n.Results()[0].Message; !strings.Contains(got, "the eswitch is that of the host's DPU") || b.numVFs() != "0" {
		t.Errorf("legacy mode: %s, %s VFs", got, b.numVFs())
	}

	allowed := *policy
	allowed.Generation, allowed.Spec.EswitchMode = 2, ""
	n.set(&allowed)
	n.await(t, "p Applied")
	if b.numVFs() != "4" {
		t.Fatalf("%s VFs", b.numVFs())
	}
	b.take()
	b.dpu.offloadOn()
	web := b.pod(1, b.device(0))
	web.silent("before ADD")
	web.must("ADD")
	web.answers()
	b.dpu.carries(web.port(), func() { _, _ = try(inside("a", "ping", "-c3", "-i", "0.2", "-W1", web.v4)...) })

	n.set()
	n.await(t, " DrainNeeded") // of no policy
	if b.numVFs() != "4" {
		t.Errorf("with a pod on a VF: %s VFs", b.numVFs())
	}
	web.answers()
	web.must("DEL")
	b.host.idle()
	n.Mark()
	n.await(t, "")
	if b.numVFs() != "0" {
		t.Errorf("without the policy: %s VFs", b.numVFs())
	}
}

func (b *dpuBench) numVFs() string {
	b.Helper()
	return read(b, "/sys/bus/pci/devices/"+b.pci+"/sriov_numvfs")
}

// policies is the part of the host's agent for OffloadPolicies.
func (h *hostSide) policies() *policyNode {
	h.Helper()
	node, devices := openNode(h.T)
	n := &policyNode{node: node, pci: h.pci}
	var err error
	n.Runner, err = setup.New(filepath.Join(h.TempDir(), "policy.json"), "boot", setup.Deps{
		Policies: n.list, NodeObject: func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}} },
		Inventory: node.Read, Hold: h.ledger.Hold,
		InUse: func() map[string]string {
			used := map[string]string{}
			for _, claim := range h.ledger.Claims() {
				used[claim.Device] = "pod"
			}
			return used
		},
		Busy: setup.Busy{Pods: func() []string { return nil }, Uplinks: setup.DPUUplinks{}, DPU: true},
		NIC:  kernelNIC{devices}, OVS: setup.DPUOVS{},
		Changed: func() {}, Warn: func(string) {}, Logger: slog.Default(), Registerer: prometheus.NewRegistry(),
	})
	ok(h, err)
	n.runs(h.T)
	return n
}
