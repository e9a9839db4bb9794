//go:build bench

package switchdev

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
	"github.com/ovn-offload/ovn-offload/test/bench/machine"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// policyNode is an agent's part for OffloadPolicies on a real NIC and OVS.
type policyNode struct {
	*setup.Runner
	node     *vf.Node
	pci      string
	sampling *nodeoffload.Sampling

	mu       sync.Mutex
	policies []*v1alpha1.OffloadPolicy
}

type kernelNIC struct{ *devlink.Devices }

func (kernelNIC) SetVFs(address string, n int) error { return netdev.SetVFs("/sys", address, n) }

// containerOVS is OVS as the ovs-node pod has it, with that pod's start script.
func containerOVS(t *testing.T) (run string) {
	t.Helper()
	dir := t.TempDir()
	ovs := &machine.OVS{TB: t, Script: machine.Script(t), Run: dir + "/run", Config: dir + "/etc"}
	ovs.Start()
	return ovs.Run
}

func newPolicyNode(t *testing.T, pci string) *policyNode {
	t.Helper()
	run := containerOVS(t)
	node, devices := openNode(t)
	schema, err := vswitch.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	cfg := ovsdb.Defaults([]string{"unix:" + run + "/db.sock"}, schema)
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	db, err := ovsdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	running, err := offload.LoadRunning(filepath.Join(t.TempDir(), "running.json"))
	if err != nil {
		t.Fatal(err)
	}
	client := unixctl.Client{Dir: run, Daemon: "ovs-vswitchd"}
	host, err := netdev.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	n := &policyNode{node: node, pci: pci}
	n.sampling = nodeoffload.NewSampling(nodeoffload.SamplingDeps{
		Switch: client, DB: db, Running: running, Logger: cfg.Logger, Registerer: prometheus.NewRegistry(),
		Inventory: func() *vf.Inventory { return nil },
	})
	n.Runner, err = setup.New(filepath.Join(t.TempDir(), "policy.json"), "boot", setup.Deps{
		Policies:   n.list,
		NodeObject: func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}} }, Inventory: node.Read,
		Busy:  setup.Busy{Pods: func() []string { return nil }, Uplinks: noUplinks{}},
		InUse: func() map[string]string { return nil },
		Hold:  func([]string, string) (func(), error) { return func() {}, nil },
		NIC:   kernelNIC{devices}, OVS: setup.Vswitchd{Client: client, DB: db, Observed: n.sampling.Observed, Links: host},
		Changed: func() {}, Warn: func(string) {}, Logger: cfg.Logger, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.runs(t)
	return n
}

// runs is Run until the end of the test.
func (n *policyNode) runs(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = n.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

func (n *policyNode) list() ([]*v1alpha1.OffloadPolicy, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.policies), true
}

// noUplinks are none: the tests' NICs are free.
type noUplinks struct{ setup.Uplinks }

func (noUplinks) Resume(context.Context) error     { return nil }
func (noUplinks) Undone() map[string]uplink.Undone { return nil }

func (n *policyNode) set(policies ...*v1alpha1.OffloadPolicy) {
	for _, p := range policies {
		p.Status.Changing = []string{"node"} // the controller's part
	}
	n.mu.Lock()
	n.policies = policies
	n.mu.Unlock()
	n.Mark()
}

// await waits for the results, as "policy state", and for none when there is none.
func (n *policyNode) await(t *testing.T, want string) {
	t.Helper()
	states := func() string {
		var all []string
		for _, r := range n.Results() {
			all = append(all, r.Policy+" "+string(r.State))
		}
		return strings.Join(all, ", ")
	}
	for end := time.Now().Add(2 * time.Minute); states() != want; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("results %+v, want %q", n.Results(), want)
		}
	}
}

func (n *policyNode) pf(t *testing.T) *vf.PF {
	t.Helper()
	p := pf(t, inventory(t, n.node), n.pci)
	return &p
}

func (n *policyNode) wantBare(t *testing.T) {
	t.Helper()
	p := n.pf(t)
	if p.Switchdev() || len(p.VFs) != 0 || p.Uplink().HWTC == nil || *p.Uplink().HWTC {
		t.Errorf("not bare: %+v", p)
	}
	if s := n.sampling.Settings(); s == nil || s.HWOffload || s.RestartDue {
		t.Errorf("settings of OVS: %+v", s)
	}
}

// TestOffloadPolicy_BareNICOffloadsAndGoesBack: a bare NIC becomes an offloading one and bare again, with a restart of
// OVS for each change. A VF in use is not removed.
func TestOffloadPolicy_BareNICOffloadsAndGoesBack(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	pci := nics(t)[0]
	nicSet(t, pci, "legacy", "0")
	run(t, "ethtool", "-K", uplinkOf(t, pci), "hw-tc-offload", "off")
	t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	n := newPolicyNode(t, pci)
	n.await(t, "")
	n.wantBare(t)

	policy := &v1alpha1.OffloadPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{pci}}, NumVFs: 3, ReservedVFs: 1},
	}
	n.set(policy)
	n.await(t, "p Applied, p Applied")
	p := n.pf(t)
	if !p.Switchdev() || len(p.VFs) != 3 || !*p.Uplink().HWTC {
		t.Fatalf("after the policy: %+v", p)
	}
	for _, v := range p.VFs {
		if v.Netdev == nil || v.Representor == nil || v.Representor.HWTC == nil || !*v.Representor.HWTC {
			t.Errorf("VF %d: %+v", v.Index, v)
		}
	}
	inv := inventory(t, n.node)
	settings := n.sampling.Settings()
	status := nodeoffload.Status(nodeoffload.Facts{Inventory: &inv, Settings: settings, Reserved: vf.Settings{}.Purposes(&inv, n.Reserved(), nil).NotForPods(), Policies: n.Results()})
	if status.Offload != v1alpha1.OffloadOn || status.Devices[0].VFs != (v1alpha1.VFCount{Total: 3, Reserved: 1, Free: 2}) {
		t.Errorf("offload %s (%s), settings %+v, VFs %+v", status.Offload, status.Reason, settings, status.Devices[0].VFs)
	}

	run(t, "ip", "netns", "add", "user")
	run(t, "ip", "link", "set", p.VFs[1].Netdev.Name, "netns", "user")
	n.set()
	n.await(t, " Refused")
	if got := n.Results()[0].Message; !strings.Contains(got, p.VFs[1].Name) || len(n.pf(t).VFs) != 3 || !n.sampling.Settings().HWOffload {
		t.Errorf("%q, %d VFs, settings %+v", got, len(n.pf(t).VFs), n.sampling.Settings())
	}
	run(t, "ip", "netns", "del", "user") // the kernel returns the VF to the host
	n.await(t, "")
	n.wantBare(t)
}

// TestOffloadPolicy_ChangesNumberOfVFs: the number of VFs changes by way of none, and a NIC
// with an address keeps its mode.
func TestOffloadPolicy_ChangesNumberOfVFs(t *testing.T) {
	tier.In(t, "bench")
	pci := nics(t)[1]
	nicSet(t, pci, "switchdev", "2")
	t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	n := newPolicyNode(t, pci)
	spec := v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{pci}}, NumVFs: 5, OVSHWOffload: new(bool)}
	n.set(&v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: spec})
	n.await(t, "more Applied")
	if p := n.pf(t); len(p.VFs) != 5 || !p.Switchdev() {
		t.Errorf("%+v", p)
	}
	uplink := n.pf(t).Uplink().Name
	run(t, "ip", "addr", "add", "192.0.2.1/24", "dev", uplink)
	t.Cleanup(func() { run(t, "ip", "addr", "del", "192.0.2.1/24", "dev", uplink) })
	spec.EswitchMode = "legacy"
	n.set(&v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mode"}, Spec: spec})
	n.await(t, "mode Refused")
	if got := n.Results()[0].Message; !strings.Contains(got, uplink) || !n.pf(t).Switchdev() {
		t.Errorf("%q", got)
	}
	n.set()
	n.await(t, "")
	if p := n.pf(t); len(p.VFs) != 2 || !p.Switchdev() {
		t.Errorf("not back: %+v", p)
	}
}

// TestOffloadPolicy_OneOfTwoIsRemoved: one of two policies goes while OVS offloads for the other. Its
// NIC goes back but for the link that has a rule, which goes back with the rule.
func TestOffloadPolicy_OneOfTwoIsRemoved(t *testing.T) {
	tier.In(t, "bench")
	leaves, stays := nics(t)[0], nics(t)[1]
	for _, pci := range []string{leaves, stays} {
		nicSet(t, pci, "switchdev", "2")
		t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	}
	n := newPolicyNode(t, leaves)
	policy := func(name, pci string) *v1alpha1.OffloadPolicy {
		selector := v1alpha1.PFSelector{PCIAddresses: []string{pci}}
		return &v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.OffloadPolicySpec{PFSelector: selector, NumVFs: 2}}
	}
	n.set(policy("a", leaves), policy("b", stays))
	n.await(t, "a Applied, b Applied, a Applied")
	busy, quiet := n.pf(t).VFs[0].Representor.Name, n.pf(t).VFs[1].Representor.Name
	run(t, "tc", "qdisc", "add", "dev", busy, "clsact")
	redirect(t, busy, quiet)
	n.set(policy("b", stays))
	n.await(t, " Pending, b Applied, b Applied")
	want := "hw-tc-offload stays on while there are rules of TC: " + busy + "; OVS offloads for policy b"
	if got := n.Results()[0].Message; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	offloads := func(link *vf.Netdev) bool { return link.HWTC != nil && *link.HWTC }
	p := n.pf(t)
	if offloads(p.Uplink()) || !offloads(&p.VFs[0].Representor.Netdev) || offloads(&p.VFs[1].Representor.Netdev) || len(p.VFs) != 2 {
		t.Errorf("while a rule is there: %+v", p)
	}
	run(t, "tc", "filter", "del", "dev", busy, "ingress")
	n.Mark() // it looks every 30 s
	n.await(t, "b Applied, b Applied")
	if offloads(&n.pf(t).VFs[0].Representor.Netdev) || !n.sampling.Settings().HWOffload {
		t.Errorf("in the end: %+v, settings %+v", n.pf(t), n.sampling.Settings())
	}
}

func uplinkOf(t *testing.T, pci string) string {
	t.Helper()
	node, _ := openNode(t)
	p := pf(t, inventory(t, node), pci)
	return p.Uplink().Name
}
