//go:build bench

package boot

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	"github.com/ovn-offload/ovn-offload/pkg/node/unmanaged"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

const (
	nic      = "0000:01:00.0"
	address  = "192.0.2.7/24"
	state    = "/var/lib/ovn-offload"
	units    = "/etc/systemd/system"
	unit     = "ovn-offload-sriov-" + nic + ".service"
	patience = 2 * time.Minute
)

// host is the machine, with the agent's part for OffloadPolicies.
type host struct {
	*testing.T
	devices *vf.Node
	kernel  *devlink.Devices
}

func newHost(t *testing.T) *host {
	t.Helper()
	ns, err := netdev.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	kernel, err := devlink.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kernel.Close() })
	h := &host{T: t, kernel: kernel, devices: &vf.Node{Sysfs: netdev.OpenSysfs("/sys"), Kernel: kernel, Links: ns, Events: kernel}}
	t.Cleanup(func() {
		if t.Failed() {
			for _, words := range []string{"ip addr", "nmcli device", "journalctl --no-pager -b -u NetworkManager -u " + unit, "systemctl --no-pager list-units --failed"} {
				t.Logf("%s:\n%s", words, h.try(strings.Fields(words)...))
			}
		}
	})
	return h
}

func (h *host) try(words ...string) string {
	out, _ := exec.Command(words[0], words[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (h *host) run(words ...string) string {
	h.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		h.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *host) eventually(what string, ok func() (bool, string)) {
	h.Helper()
	deadline := time.Now().Add(patience)
	for {
		good, seen := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("not yet: %s; seen: %s", what, seen)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (h *host) pf() vf.PF {
	h.Helper()
	inv, err := h.devices.Read()
	if err != nil {
		h.Fatal(err)
	}
	for _, pf := range inv.PFs {
		if pf.Name == nic {
			return pf
		}
	}
	h.Fatalf("no NIC %s: %+v", nic, inv)
	return vf.PF{}
}

func (h *host) uplink() string {
	h.Helper()
	pf := h.pf()
	if pf.Uplink() == nil {
		h.Fatalf("%s has no netdev", nic)
	}
	return pf.Uplink().Name
}

type kernelNIC struct{ *devlink.Devices }

func (kernelNIC) SetVFs(address string, n int) error { return netdev.SetVFs("/sys", address, n) }

// agent runs until what became of the policies is as wanted.
func (h *host) agent(want string, policies ...*v1alpha1.OffloadPolicy) {
	h.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		h.Fatal(err)
	}
	r, err := setup.New(filepath.Join(state, "offload-policy.json"), strings.TrimSpace(string(boot)), setup.Deps{
		Policies:   func() ([]*v1alpha1.OffloadPolicy, bool) { return policies, true },
		NodeObject: func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}} },
		Inventory:  h.devices.Read, InUse: func() map[string]string { return nil },
		Busy: setup.Busy{Uplinks: setup.DPUUplinks{}, Pods: func() []string { return nil }, UnitDir: units},
		Hold: func([]string, string) (func(), error) { return func() {}, nil },
		NIC:  kernelNIC{h.kernel}, OVS: setup.DPUOVS{}, // there is no OVS
		Changed: func() {}, Warn: func(string) {}, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		h.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = r.Run(ctx) })
	defer func() { stop(); group.Wait() }()
	r.Mark()
	h.eventually("the agent says "+want, func() (bool, string) {
		var seen []string
		for _, result := range r.Results() {
			seen = append(seen, result.Policy+" "+string(result.State)+" "+result.Message)
		}
		text := strings.Join(seen, ", ")
		_, unitErr := os.Lstat(filepath.Join(units, unit))
		return strings.HasPrefix(text, want) && (text == "") == (want == "") && os.IsNotExist(unitErr) == (want == ""), text
	})
}

func policy() *v1alpha1.OffloadPolicy {
	return &v1alpha1.OffloadPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec:       v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{nic}}, NumVFs: 2, UplinkChange: v1alpha1.UplinkAtBoot},
		Status:     v1alpha1.OffloadPolicyStatus{Changing: []string{"node"}},
	}
}

// addressed waits until NetworkManager has given the uplink its address.
func (h *host) addressed() {
	h.Helper()
	h.eventually("the address of the uplink", func() (bool, string) {
		out := h.try("ip", "-o", "addr", "show", "dev", h.uplink())
		return strings.Contains(out, address), out
	})
}

// property is one of a unit's.
func (h *host) property(unit, name string) string {
	h.Helper()
	return h.run("systemctl", "show", "--value", "-p", name, unit)
}

func (h *host) number(unit, name string) int {
	h.Helper()
	n, err := strconv.Atoi(h.property(unit, name))
	if err != nil {
		h.Fatalf("%s of %s: %v", name, unit, err)
	}
	return n
}

// TestBoot1_AgentWritesUnit: the bare NIC has the node's address, so nothing changes before the next boot. systemd knows the
// unit and has no complaint.
func TestBoot1_AgentWritesUnit(t *testing.T) {
	h := newHost(t)
	h.run("nmcli", "connection", "add", "type", "ethernet", "con-name", "uplink", "ifname", h.uplink(), "ipv4.method", "manual", "ipv4.addresses", address, "ipv6.method", "link-local")
	h.run("nmcli", "connection", "up", "uplink")
	h.addressed()
	h.agent("p RebootNeeded a reboot of the host makes the change", policy())
	if pf := h.pf(); pf.Switchdev() || pf.NumVFs != 0 {
		t.Errorf("changed before the boot: %s, %d VFs", pf.Eswitch.Mode, pf.NumVFs)
	}
	h.run("systemctl", "daemon-reload")
	if out := h.property(unit, "UnitFileState"); out != "enabled" {
		t.Errorf("%s is %s", unit, out)
	}
	if out := h.property(unit, "LoadState"); out != "loaded" {
		t.Errorf("%s is %s: %s", unit, out, h.property(unit, "LoadError"))
	}
}

// TestBoot2_NICIsSetUpBeforeNetwork: the unit has made mode and VFs before NetworkManager began, which gives the NIC its
// address. NetworkManager leaves VFs, representors and bridges alone when the agent has written its files. Then the policy
// is deleted.
func TestBoot2_NICIsSetUpBeforeNetwork(t *testing.T) {
	h := newHost(t)
	if pf := h.pf(); !pf.Switchdev() || pf.NumVFs != 2 {
		t.Fatalf("mode %s, %d VFs; %s", pf.Eswitch.Mode, pf.NumVFs, h.try("systemctl", "--no-pager", "status", unit))
	}
	if active := h.property(unit, "ActiveState"); active != "active" {
		t.Errorf("%s is %s", unit, active)
	}
	done, began := h.number(unit, "ExecMainExitTimestampMonotonic"), h.number("NetworkManager.service", "ExecMainStartTimestampMonotonic")
	if done == 0 || began == 0 || done > began {
		t.Errorf("the unit ended %d us after the boot, NetworkManager began after %d us", done, began)
	}
	h.addressed()
	h.agent("p Applied", policy())
	for _, word := range []string{"br-int", "ovn-k8s-mp0", "br" + h.uplink()} {
		if len(word) <= netdev.MaxName {
			h.run("ip", "link", "add", word, "type", "bridge")
			h.run("ip", "link", "set", word, "up")
		}
	}
	h.unmanaged()
	h.agent("")
}

// unmanaged asks NetworkManager about each device before the agent's files are there, the control, and after.
func (h *host) unmanaged() {
	h.Helper()
	uplink := h.uplink()
	bridge := "br" + uplink
	ours := map[string]bool{"br-int": true, "ovn-k8s-mp0": true, bridge: len(bridge) <= netdev.MaxName}
	for _, v := range h.pf().VFs {
		if v.Netdev == nil || v.Representor == nil {
			h.Fatalf("VF %s: %+v, %+v", v.Name, v.Netdev, v.Representor)
		}
		ours[v.Netdev.Name], ours[v.Representor.Name] = true, true
	}
	states := func() map[string]string {
		out := map[string]string{}
		for line := range strings.Lines(h.run("nmcli", "--terse", "--fields", "DEVICE,STATE", "device")) {
			if name, state, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				out[name] = state
			}
		}
		return out
	}
	before := states()
	h.Logf("before: %v", before)
	managed := 0
	for name, mine := range ours {
		if mine && before[name] != "unmanaged" && before[name] != "" {
			managed++
		}
	}
	if managed == 0 {
		h.Errorf("NetworkManager leaves all devices alone by itself: %v", before)
	}
	if err := unmanaged.Install(h.Context(), "/run", "/sys", []string{bridge}); err != nil {
		h.Fatal(err)
	}
	h.eventually("NetworkManager leaves the devices alone", func() (bool, string) {
		now := states()
		text := ""
		for name, mine := range ours {
			if mine && now[name] != "unmanaged" {
				text += " " + name + ":" + now[name]
			}
		}
		return text == "" && now[uplink] == "connected", text + "; the uplink is " + now[uplink]
	})
	h.Logf("after: %v", states())
}

// TestBoot3_NICIsAsBeforePolicy: the unit has gone with the policy, and the NIC comes up as it was.
func TestBoot3_NICIsAsBeforePolicy(t *testing.T) {
	h := newHost(t)
	if pf := h.pf(); pf.Switchdev() || pf.NumVFs != 0 {
		t.Errorf("mode %s, %d VFs", pf.Eswitch.Mode, pf.NumVFs)
	}
	h.addressed()
	if out := h.try("systemctl", "cat", unit); !strings.Contains(out, "No files found") {
		t.Errorf("the unit: %s", out)
	}
}
