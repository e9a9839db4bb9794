package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

const device = "0000:03:00.2"

var (
	originalMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	podMAC      = net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 1, 5}
)

// world is a VF in the host namespace, and a pod's namespace.
type world struct {
	*testing.T
	net     *netdevtest.Fake
	host    *netdevtest.FakeNS
	m       *Mover
	dir     string // of the ledger
	present bool
	use     string           // that the node makes of the VF
	pf      error            // of the PF's link
	port    net.HardwareAddr // on the devlink port
	f       vf.Handle
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, net: netdevtest.NewFake(), present: true, f: vf.Handle{Device: device, PF: "p0", Driver: "mlx5_core"}, port: originalMAC}
	w.net.AddNS("/pod")
	w.net.AddLink("", netdev.Link{Name: "p0"})
	w.net.AddLink("", netdev.Link{Name: "vf0", Parent: device, MTU: 1500, MAC: originalMAC, Up: true, AltNames: []string{"eth0"}})
	var err error
	w.host, err = w.net.Open("")
	w.must(err)
	w.dir = t.TempDir()
	claims, err := ledger.Open(w.dir, "")
	w.must(err)
	t.Cleanup(func() { _ = claims.Close() })
	w.m = New(Deps{
		Ledger: claims, Host: w.host, PF: w, Ethtool: w.host, Inode: w.net.Inode, Log: slog.New(slog.DiscardHandler),
		Open:      func(path string) (Netns, error) { return w.net.Open(path) },
		Exclusive: func() (bool, error) { return false, nil },
		Present: func(string) (bool, []string, error) {
			links, err := w.host.Links()
			var names []string
			for _, l := range links {
				if l.Parent == device {
					names = append(names, l.Name)
				}
			}
			return w.present, names, err
		},
		Use:  func(string) (string, error) { return w.use, nil },
		RDMA: func(string) ([]string, error) { return nil, nil },
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// refuse makes an operation fail.
func (w *world) refuse(operation string) {
	w.net.FailWith(func(op, _ string) error {
		if op == operation {
			return errors.ErrUnsupported
		}
		return nil
	})
}

// restart opens the ledger again.
func (w *world) restart() {
	w.Helper()
	w.must(w.m.Ledger.Close())
	claims, err := ledger.Open(w.dir, "")
	w.must(err)
	w.Cleanup(func() { _ = claims.Close() })
	w.m.Ledger = claims
}

// SetVFMAC is a PF that may refuse.
func (w *world) SetVFMAC(string, int, net.HardwareAddr) error { return w.pf }

func (w *world) FunctionMAC(string) (net.HardwareAddr, error) { return w.port, nil }

func (w *world) SetFunctionMAC(_ string, mac net.HardwareAddr) error { w.port = mac; return nil }

func (w *world) claim() {
	w.Helper()
	inode, err := w.net.Inode("/pod")
	w.must(err)
	_, err = w.m.Ledger.Take([]string{device}, ledger.Claim{
		Pod: types.NamespacedName{Namespace: "default", Name: "web"}, UID: "uid", Sandbox: "a", Interface: "eth0", NetNS: "/pod", Inode: inode,
	})
	w.must(err)
}

func (w *world) in() error {
	if _, err := w.m.Prepare(w.f, "a"); err != nil {
		return err
	}
	return w.m.Attach(context.Background(), w.f, "a", Target{Name: "eth0", MAC: podMAC, MTU: 1400})
}

func (w *world) wantDetached() {
	w.Helper()
	l, err := w.host.Link("vf0")
	if err != nil || l.MAC.String() != originalMAC.String() || l.MTU != 1500 || !l.Up || !slices.Equal(l.AltNames, []string{"eth0"}) {
		w.Errorf("detached: %+v, %v", l, err)
	}
	if claims := w.m.Ledger.Claims(); len(claims) > 0 {
		w.Errorf("claims are left: %+v", claims)
	}
}

// TestAttachAndDetach_RestoreVF: a further name of the VF is what it is to be called in the pod.
func TestAttachAndDetach_RestoreVF(t *testing.T) {
	w := newWorld(t)
	w.claim()
	w.must(w.in())
	w.must(w.in())
	w.must(w.m.Commit(device, "a"))
	claim, _ := w.m.Ledger.Holder(device)
	if !w.m.Attached(claim) {
		t.Error("the pod does not hold it")
	}
	w.must(w.m.Detach(t.Context(), w.f, "another"))
	if !w.m.Attached(claim) {
		t.Error("another sandbox has detached it")
	}
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.wantDetached()
}

// TestDetach_RestoresEthtoolSettings: a pod with NET_ADMIN has changed them. The VF is free again
// also when the driver refuses them.
func TestDetach_RestoresEthtoolSettings(t *testing.T) {
	own := netdev.Ethtool{
		Rings: &netdev.Rings{RX: 1024, TX: 1024}, Channels: &netdev.Channels{Combined: 8},
		Features: map[string]bool{"tx-checksum-ip-generic": true, "rx-lro": false},
	}
	pods := netdev.Ethtool{
		Rings: &netdev.Rings{RX: 64, TX: 64}, Channels: &netdev.Channels{Combined: 1},
		Features: map[string]bool{"tx-checksum-ip-generic": false, "rx-lro": true},
	}
	for name, tt := range map[string]struct {
		before  func(w *world)
		restart bool // of the agent
		dies    bool // the pod's namespace, before the DEL
		want    netdev.Ethtool
	}{
		"DEL":                      {want: own},
		"after a restart":          {restart: true, want: own},
		"the namespace is gone":    {dies: true, want: own},
		"the driver refuses":       {before: func(w *world) { w.refuse("SetEthtool") }, want: pods},
		"the driver tells nothing": {before: func(w *world) { w.refuse("Ethtool") }, want: pods},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.host.SetEthtool("vf0", own))
			if tt.before != nil {
				tt.before(w)
			}
			w.claim()
			w.must(w.in())
			w.must(w.m.Commit(device, "a"))
			pod, err := w.net.Open("/pod")
			w.must(err)
			w.net.FailWith(nil)
			w.must(pod.SetEthtool("eth0", pods))
			if tt.before != nil {
				tt.before(w)
			}
			if tt.restart {
				w.restart()
			}
			if tt.dies {
				w.net.RemoveNS("/pod")
			}
			w.must(w.m.Detach(t.Context(), w.f, "a"))
			w.wantDetached()
			w.net.FailWith(nil)
			got, err := w.host.Ethtool("vf0")
			w.must(err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("detached (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIn_WithoutClaimChangesNothing(t *testing.T) {
	w := newWorld(t)
	if err := w.in(); !errors.Is(err, ledger.ErrNotHeld) {
		t.Errorf("without a claim: %v", err)
	}
	if l, err := w.host.Link("vf0"); err != nil || !l.Up {
		t.Errorf("it was changed: %+v, %v", l, err)
	}
}

// TestPrepare_RefusesVFOfTheNode: the kubelet chose the VF before the node began to
// use it. A VF that a pod has already may get an address of the node's.
func TestPrepare_RefusesVFOfTheNode(t *testing.T) {
	w := newWorld(t)
	w.use = "vf0 has address 10.1.2.3/24"
	w.claim()
	if err := w.in(); err == nil || !strings.Contains(err.Error(), "the node uses it: vf0 has address 10.1.2.3/24") {
		t.Errorf("a VF of the node went into a pod: %v", err)
	}
	must := func(claims int, when string) {
		t.Helper()
		l, err := w.host.Link("vf0")
		if got := len(w.m.Ledger.Claims()); got != claims || err != nil || l.MTU != 1500 || !l.Up {
			t.Errorf("%s: %d claims, %+v, %v", when, got, l, err)
		}
	}
	must(1, "refused")
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	must(0, "released")

	w.use = ""
	w.claim()
	w.must(w.in())
	w.use = "vf0 has address 10.1.2.3/24" // returned by the kernel, and configured there
	w.net.RemoveNS("/pod")
	if _, err := w.m.Prepare(w.f, "a"); err != nil {
		t.Errorf("a VF that is recorded already: %v", err)
	}
}

// TestIn_MACRefusedByPFFailsVFIOOnly: it matters to a device whose MAC nothing else can set.
func TestIn_MACRefusedByPFFailsVFIOOnly(t *testing.T) {
	w := newWorld(t)
	w.pf = os.ErrPermission
	w.claim()
	w.must(w.in())
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.wantDetached()

	w.claim()
	w.net.RemoveDevice(device)
	w.f.VFIO, w.f.Driver = true, "vfio-pci"
	if err := w.in(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("vfio: %v", err)
	}

	w = newWorld(t)
	w.pf = os.ErrPermission
	w.claim()
	w.net.RemoveDevice(device)
	w.f.VFIO, w.f.Driver, w.f.Representor = true, "vfio-pci", "rep0"
	w.must(w.in())
	if w.port.String() != podMAC.String() {
		t.Errorf("on the representor's port, the MAC is %s", w.port)
	}
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	if w.port.String() != originalMAC.String() {
		t.Errorf("detached, the MAC on the representor's port is %s", w.port)
	}
}

// TestAttachAndDetach_DPUSetsMAC: on the host of a DPU neither the PF nor a representor
// takes the MAC of a VF.
func TestAttachAndDetach_DPUSetsMAC(t *testing.T) {
	w := newWorld(t)
	w.pf, w.m.PF = os.ErrPermission, nil
	w.claim()
	w.must(w.in())
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.wantDetached()

	w.claim()
	w.net.RemoveDevice(device)
	w.f.VFIO, w.f.Driver = true, "vfio-pci"
	w.must(w.in())
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	if claims := w.m.Ledger.Claims(); len(claims) > 0 {
		t.Errorf("claims are left: %+v", claims)
	}
}

// TestIn_RetriesRefusedMAC: a driver that starts anew refuses a MAC for a while.
func TestIn_RetriesRefusedMAC(t *testing.T) {
	w := newWorld(t)
	w.claim()
	refusals := 0
	w.net.FailWith(func(op, _ string) error {
		if op == "SetLink" && refusals < 3 {
			refusals++
			return os.ErrDeadlineExceeded
		}
		return nil
	})
	w.must(w.in())
	pod, err := w.net.Open("/pod")
	w.must(err)
	if l, err := pod.Link("eth0"); err != nil || l.MAC.String() != podMAC.String() || refusals != 3 {
		t.Errorf("in the pod: %+v, %v after %d refusals", l, err, refusals)
	}
}

// TestIn_WaitsForDriverThatStartsAnew: each try of iavf waits for the PF, for 2.5 s.
func TestIn_WaitsForDriverThatStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claim()
		tries := 0
		w.net.FailWith(func(op, _ string) error {
			if op != "SetLink" {
				return nil
			}
			if tries++; tries > 3 {
				return nil
			}
			time.Sleep(2500 * time.Millisecond)
			return unix.EAGAIN
		})
		w.must(w.in())
	})
}

// TestDetach_FormerNameInUse: names that are not stable go to the next device, and with them the further ones.
func TestDetach_FormerNameInUse(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"in the pod":               func(*world) {},
		"its namespace is gone":    func(w *world) { w.net.RemoveNS("/pod") },
		"renamed in the pod":       func(w *world) { w.inPod(netdev.Move{Name: "net7", To: "/pod"}) },
		"the pod has taken dev's":  func(w *world) { w.inPod(netdev.Move{Name: "dev99", To: "/pod"}) },
		"a further name is in use": func(w *world) { w.net.AddLink("", netdev.Link{Name: "eth0"}) },
	} {
		w := newWorld(t)
		w.claim()
		w.must(w.in())
		w.must(w.m.Commit(device, "a"))
		w.net.AddLink("", netdev.Link{Name: "vf0"})
		spoil(w)
		if err := w.m.Detach(t.Context(), w.f, "a"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		l, err := childOf(w.host, device)
		if err != nil || l.Name != fmt.Sprintf("dev%d", l.Index) || l.MAC.String() != originalMAC.String() || l.MTU != 1500 || !l.Up {
			t.Errorf("%s: detached: %+v, %v", name, l, err)
		}
		if claims := w.m.Ledger.Claims(); len(claims) > 0 {
			t.Errorf("%s: claims are left: %+v", name, claims)
		}
		if _, err := w.net.Inode("/pod"); err != nil {
			w.net.AddNS("/pod")
		}
		w.claim() // the next pod gets it
		w.must(w.in())
	}
}

// TestNetnsGone_FailedLookIsNoAnswer: the sweep would take the VF from a pod that lives.
func TestNetnsGone_FailedLookIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	w.claim()
	claim, _ := w.m.Ledger.Holder(device)
	for want, err := range map[bool]error{false: unix.EIO, true: fmt.Errorf("namespace /pod: %w", unix.ENOENT)} {
		w.m.Inode = func(string) (uint64, error) { return 0, err }
		if gone := w.m.NetnsGone(claim); gone != want {
			t.Errorf("%v: gone is %t", err, gone)
		}
	}
	w.m.Inode = func(string) (uint64, error) { return claim.Inode + 1, nil }
	if !w.m.NetnsGone(claim) {
		t.Error("another namespace at the same path passes for the pod's")
	}
}

// inPod moves the VF inside the pod.
func (w *world) inPod(m netdev.Move) {
	w.Helper()
	pod, err := w.net.Open("/pod")
	w.must(err)
	l, err := childOf(pod, device)
	w.must(err)
	m.Index = l.Index
	w.must(pod.MoveLink(m))
}

// TestDetach_RestoresAlias: an alias goes along with a netdev, and a pod with NET_ADMIN sets it.
func TestDetach_RestoresAlias(t *testing.T) {
	for own, want := range map[string]string{"": "", "rack 3": "rack 3", "ovn-offload sandbox x": ""} {
		w := newWorld(t)
		w.must(w.host.SetLink("vf0", netdev.Settings{Alias: own, NoAlias: own == ""}))
		w.claim()
		w.must(w.in())
		pod, err := w.net.Open("/pod")
		w.must(err)
		w.must(pod.SetLink("eth0", netdev.Settings{Alias: "ovn-offload management port, was p0"}))
		w.must(w.m.Detach(t.Context(), w.f, "a"))
		w.wantDetached()
		if l, err := w.host.Link("vf0"); err != nil || l.Alias != want {
			t.Errorf("own alias %q: %q, %v", own, l.Alias, err)
		}
	}
}

// TestDetach_ClearsFlags: so do flags, such as NOARP, with which the next pod would get no answer.
func TestDetach_ClearsFlags(t *testing.T) {
	w := newWorld(t)
	w.claim()
	w.must(w.in())
	pod, err := w.net.Open("/pod")
	w.must(err)
	w.must(pod.SetLink("eth0", netdev.Settings{NoARP: true}))
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.wantDetached()
	if l, err := w.host.Link("vf0"); err != nil || l.NoARP {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestDetach_UnpluggedDeviceEndsClaim: what is not on its bus any more has nothing to be restored.
func TestDetach_UnpluggedDeviceEndsClaim(t *testing.T) {
	w := newWorld(t)
	w.claim()
	w.must(w.in())
	w.net.RemoveDevice(device)
	if err := w.m.Detach(t.Context(), w.f, "a"); !errors.Is(err, ErrAway) {
		t.Errorf("on its bus, and its netdev nowhere: %v", err)
	}
	w.present = false
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	if claims := w.m.Ledger.Claims(); len(claims) > 0 {
		t.Errorf("claims are left: %+v", claims)
	}
}

// TestDetach_SucceedsWithVFBoundToVFIO: another program has bound the VF to vfio meanwhile.
func TestDetach_SucceedsWithVFBoundToVFIO(t *testing.T) {
	w := newWorld(t)
	w.claim()
	w.must(w.in())
	w.net.RemoveDevice(device)
	w.f.Driver, w.f.VFIO = "vfio-pci", true
	w.must(w.m.Detach(t.Context(), w.f, "a"))
}

// TestIn_RefusesNamespaceOfNextPod: the path is another pod's namespace by now.
func TestIn_RefusesNamespaceOfNextPod(t *testing.T) {
	w := newWorld(t)
	w.claim()
	w.net.RemoveNS("/pod")
	w.net.AddNS("/pod")
	if err := w.in(); err == nil {
		t.Error("a VF went into a namespace that is not its pod's")
	}
	claim, _ := w.m.Ledger.Holder(device)
	if !w.m.NetnsGone(claim) {
		t.Error("the namespace has not ended")
	}
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.wantDetached()
}

// TestDetach_RestoresVFThatIsUp: the kernel has returned the VF, and the node's network
// manager has set it up there.
func TestDetach_RestoresVFThatIsUp(t *testing.T) {
	w := newWorld(t)
	w.claim()
	w.must(w.in())
	w.net.RemoveNS("/pod")
	_, names, err := w.m.Present(device)
	w.must(err)
	w.must(w.host.SetLink(names[0], netdev.Settings{State: netdev.Up}))
	w.must(w.m.Detach(t.Context(), w.f, "a"))
	w.wantDetached()
}
