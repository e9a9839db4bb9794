//go:build bench

package switchdev

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
	"github.com/ovn-offload/ovn-offload/test/bench/machine"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// The uplink's name is none that the kernel gives, and its MTU none either: a new netdev lacks both.
const (
	uplinkName, uplinkMTU = "wan0", "1600"
	moduleParameters      = "/sys/module/swsim/parameters/"
)

// uplinkHost is a node whose one NIC is bare and has the node's address.
type uplinkHost struct {
	*gatewayHost
	*policyNode
	cordoned bool
}

// TestUplink_BareNICOffloadsAndGoesBack: one object takes the NIC with the node's address from legacy mode without VFs to
// pods in hardware, and its end takes the NIC back, while the external host pings the node. The control is the default,
// which refuses. One driver makes a new netdev with each mode, the other one keeps it.
func TestUplink_BareNICOffloadsAndGoesBack(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "it restarts OVS and changes the mode of the NIC several times, which takes minutes")
	for _, anew := range []string{"1", "0"} {
		t.Run("new_uplink="+anew, func(t *testing.T) {
			write(t, moduleParameters+"new_uplink", anew)
			t.Cleanup(func() { write(t, moduleParameters+"new_uplink", "0") })
			h := newUplinkHost(t)
			pinged := machine.Ping(t, "outside", gatewayNode)
			policy := h.policy("")

			h.set(policy)
			h.await(t, "p Refused, p Applied")
			if got := h.Results()[0].Message; !strings.Contains(got, "set uplinkChange of the policy") || h.pf(t).Switchdev() {
				t.Errorf("by default: %q", got)
			}
			pinged.Report("while the change is refused, and OVS restarts", 20*time.Second)

			policy = h.policy(v1alpha1.UplinkInPlace)
			h.set(policy)
			h.await(t, "p DrainNeeded, p Applied")
			h.cordoned = true
			h.Mark()
			h.await(t, "p Applied, p Applied")
			pinged.Report("from legacy to switchdev", 30*time.Second)
			h.offloads()
			if mtu := read(t, "/sys/class/net/"+uplinkName+"/mtu"); mtu != uplinkMTU || !h.bears("br"+uplinkName) {
				t.Errorf("MTU %s", mtu)
			}
			pinged.Report("with pods in hardware", 10*time.Second)

			h.set()
			h.await(t, "")
			h.wantBare(t)
			pinged.Report("from switchdev to legacy", 30*time.Second)
			if mtu := read(t, "/sys/class/net/"+uplinkName+"/mtu"); mtu != uplinkMTU || !h.bears("br"+uplinkName) {
				t.Errorf("MTU %s", mtu)
			}
		})
	}
}

// TestUplink_ComesBackWhenNodeIsCutOff: in switchdev mode this NIC passes no packets. The former mode is back, and the
// change is not tried again.
func TestUplink_ComesBackWhenNodeIsCutOff(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "pkg/node/uplink undoes such a change in a namespace")
	write(t, moduleParameters+"dead_uplink", "1")
	t.Cleanup(func() { write(t, moduleParameters+"dead_uplink", "0") })
	h := newUplinkHost(t)
	h.cordoned = true
	pinged := machine.Ping(t, "outside", gatewayNode)
	h.set(h.policy(v1alpha1.UplinkInPlace))
	h.await(t, "p Failed, p Applied")
	if got := h.Results()[0].Message; !strings.Contains(got, "was reachable before") || h.pf(t).Switchdev() || len(h.pf(t).VFs) != 0 {
		t.Errorf("%q, %+v", got, h.pf(t))
	}
	pinged.Report("there and back", 90*time.Second)
	h.Mark()
	eventually(t, "it is said why the change is not tried again", patience, func() bool {
		return strings.Contains(h.Results()[0].Message, "was undone")
	})
	pinged.Report("after it", 10*time.Second)
}

func newUplinkHost(t *testing.T) *uplinkHost {
	t.Helper()
	pci := nics(t)[0]
	run(t, "ip", "link", "set", uplinkOf(t, pci), "down", "name", uplinkName, "mtu", uplinkMTU)
	nicSet(t, pci, "legacy", "0")
	if up := uplinkOf(t, pci); up != uplinkName { // made anew
		run(t, "ip", "link", "set", up, "down", "name", uplinkName, "mtu", uplinkMTU)
	}
	run(t, "ethtool", "-K", uplinkName, "hw-tc-offload", "off")
	n := &podNode{T: t, c: &cluster{t: t, dir: t.TempDir()}, pci: pci, pods: map[string]*corev1.Pod{}}
	n.seen = podsOf(n)
	n.dir = containerOVS(t)
	t.Cleanup(n.stop)
	n.c.central()
	n.c.nb("ls-add", "net")
	n.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=node", "external_ids:ovn-bridge=br-int")
	n.c.daemon("", n.dir, "ovn-controller", "unix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/controller.log")
	n.serve()
	h := &uplinkHost{gatewayHost: &gatewayHost{podNode: n, nic: uplinkName}}
	h.cable()
	listen(t, "outside")
	h.router()
	h.run()
	eventually(t, "br-int", time.Minute, func() bool {
		_, err := try("ovs-vsctl", "--db=unix:"+n.dir+"/db.sock", "--timeout=10", "br-exists", "br-int")
		return err == nil
	})
	h.policies()
	t.Cleanup(h.explain)
	return h
}

// explain shows where packets go when a test has failed.
func (h *uplinkHost) explain() {
	if !h.Failed() {
		return
	}
	for _, words := range [][]string{
		{"ovs-ofctl", "-O", "OpenFlow14", "show", "br" + uplinkName}, {"ovs-ofctl", "-O", "OpenFlow14", "dump-flows", "br" + uplinkName},
		{"ovs-appctl", "-t", h.appctl(), "dpctl/dump-flows"}, {"ovs-appctl", "-t", h.appctl(), "dpctl/dump-conntrack"},
		{"tc", "-s", "filter", "show", "dev", "br" + uplinkName, "egress"}, {"ip", "addr"}, {"ip", "route"}, {"ip", "neigh"}, inside("outside", "ip", "neigh"), inside("outside", "ping", "-n", "-c2", "-W1", gatewayNode),
		{"ping", "-n", "-c2", "-W1", gatewayOutside},
	} {
		out, _ := try(words...)
		h.Logf("%s:\n%s", strings.Join(words, " "), out)
	}
}

func (h *uplinkHost) appctl() string {
	files, _ := filepath.Glob(h.dir + "/ovs-vswitchd.*.ctl")
	return strings.Join(append(files, h.dir+"/ovs-vswitchd.ctl")[:1], "")
}

// policies is the agent's part for OffloadPolicies.
func (h *uplinkHost) policies() {
	t := h.T
	t.Helper()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	devices, kernel := openNode(t)
	host, err := netdev.Open("")
	ok(t, err)
	running, err := offload.LoadRunning(filepath.Join(t.TempDir(), "running.json"))
	ok(t, err)
	client := unixctl.Client{Dir: h.dir, Daemon: "ovs-vswitchd"}
	n := &policyNode{node: devices, pci: h.podNode.pci}
	n.sampling = nodeoffload.NewSampling(nodeoffload.SamplingDeps{
		Switch: client, DB: h.db, Running: running, Logger: log, Registerer: prometheus.NewRegistry(),
		Inventory: func() *vf.Inventory { return nil },
	})
	dir := t.TempDir()
	mover, err := uplink.New(filepath.Join(dir, "uplink.json"), "boot", uplink.Deps{
		Netns: node.Local{NS: host}, NIC: kernelNIC{kernel}, Gateway: h.setup, Logger: log,
		Uplink: func(device string) (string, error) { return uplinkIn(devices, device) },
	})
	ok(t, err)
	n.Runner, err = setup.New(filepath.Join(dir, "policy.json"), "boot", setup.Deps{
		Policies: n.list,
		NodeObject: func() *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{Unschedulable: h.cordoned}}
		},
		Inventory: devices.Read, InUse: func() map[string]string { return nil },
		Busy:    setup.Busy{Pods: func() []string { return nil }, Uplinks: mover},
		Hold:    func([]string, string) (func(), error) { return func() {}, nil },
		NIC:     kernelNIC{kernel},
		OVS:     setup.Vswitchd{Client: client, DB: h.db, Observed: n.sampling.Observed, Links: host},
		Changed: func() {}, Warn: func(string) {}, Logger: log, Registerer: prometheus.NewRegistry(),
	})
	ok(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = n.Run(ctx) })
	t.Cleanup(func() { stop(); group.Wait() })
	h.policyNode = n
}

func uplinkIn(devices *vf.Node, device string) (string, error) {
	inv, err := devices.Read()
	if err != nil {
		return "", err
	}
	for i := range inv.PFs {
		if up := inv.PFs[i].Uplink(); inv.PFs[i].Name == device && up != nil {
			return up.Name, nil
		}
	}
	return "", nil
}

func (h *uplinkHost) policy(change v1alpha1.UplinkChange) *v1alpha1.OffloadPolicy {
	return &v1alpha1.OffloadPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: v1alpha1.OffloadPolicySpec{
			PFSelector: v1alpha1.PFSelector{Names: []string{uplinkName}}, NumVFs: 3, UplinkChange: change,
		},
	}
}

// offloads has two pods on VFs that reach each other in hardware.
func (h *uplinkHost) offloads() {
	t := h.T
	t.Helper()
	vfs := h.pf(t).VFs
	if len(vfs) != 3 {
		t.Fatalf("%d VFs", len(vfs))
	}
	a, b := h.pod(5, vfs[0].Name), h.pod(6, vfs[1].Name)
	a.must("ADD")
	b.must("ADD")
	ok(t, a.reaches(b))
	eventually(t, "the pods' traffic is in hardware", patience, func() bool {
		_ = a.reaches(b)
		flows := h.offloaded()
		return strings.Contains(flows, "in_port("+vfs[0].Representor.Name+")") && strings.Contains(flows, "in_port("+vfs[1].Representor.Name+")")
	})
	a.must("DEL")
	b.must("DEL")
	for _, p := range []*vfPod{a, b} {
		run(t, "ip", "netns", "del", p.ns)
	}
}
