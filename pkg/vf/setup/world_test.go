package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

var errCrash = errors.New("the agent is killed")

// card is a NIC with the habits of its driver.
type card struct {
	driver string
	total  int
	vfs    int
	mode   vf.Mode
	uplink bool // hw-tc-offload
	reps   []bool
	master string
	busy   bool // has rules of OVS, as long as that offloads
	filter bool // has rules of another program
}

// world is a node. Every change counts; the crashAt-th fails, before it has
// happened or after.
type world struct {
	t         *testing.T
	file      string
	boot      string
	cards     map[string]*card // by PCI address
	mu        sync.Mutex
	used      map[string]string
	addressed map[string]bool
	// looked is called after InUse, removing while VFs are removed.
	looked, removing func()
	held             map[string]bool

	config, running map[string]string
	supervised      bool
	restarts        int
	cleared         int // rules that OVS left

	policies []*v1alpha1.OffloadPolicy
	unknown  bool
	labels   map[string]string
	// What is left of a drain, and changes of an uplink that were undone.
	pods     []string
	cordoned bool
	idle     bool
	undone   map[string]uplink.Undone
	events   []string
	resume   error // of a change of an uplink that a crash has interrupted
	log      bytes.Buffer
	registry *prometheus.Registry // of the newest agent
	units    string               // directory
	dpu      bool

	changes, crashAt int
	crashAfter       bool
	steps            []string
}

func newWorld(t *testing.T, cards map[string]*card) *world {
	return &world{
		t: t, file: filepath.Join(t.TempDir(), "policy.json"), boot: "boot-1", cards: cards,
		config: map[string]string{"mine": "1"}, running: map[string]string{"mine": "1"}, supervised: true,
		labels: map[string]string{"kind": "fast"}, used: map[string]string{}, addressed: map[string]bool{}, looked: func() {}, removing: func() {}, held: map[string]bool{},
	}
}

func pci(t *testing.T, text string) vf.PCIAddress {
	a, err := vf.ParsePCIAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func vfName(address string, index int) string { return fmt.Sprintf("%s0.%d", address[:10], index) }

// inventory is what discovery would say.
func (w *world) inventory() (vf.Inventory, error) {
	var inv vf.Inventory
	for _, address := range slices.Sorted(maps.Keys(w.cards)) {
		c := w.cards[address]
		hwTC := c.uplink
		pf := vf.PF{
			Device:   vf.Device{Name: address, PCI: pci(w.t, address), Vendor: 0x15b3, Product: 0x101d, Driver: c.driver},
			Ports:    []vf.Netdev{{Name: "up" + address[5:7], HWTC: &hwTC, Use: w.use("up"+address[5:7], c.master), Master: c.master}},
			TotalVFs: c.total, NumVFs: c.vfs, Eswitch: vf.Eswitch{Mode: c.mode},
		}
		for i := range c.vfs {
			v := vf.VF{Index: i, Device: vf.Device{Name: vfName(address, i), Driver: c.driver}, Netdev: &vf.Netdev{Name: fmt.Sprint("v", i), Use: w.use(fmt.Sprint("v", i), "")}}
			if c.mode == vf.Switchdev {
				on := c.reps[i]
				v.Representor = &vf.Representor{Netdev: vf.Netdev{Name: fmt.Sprintf("rep%s%d", address[5:7], i), HWTC: &on}}
			}
			pf.VFs = append(pf.VFs, v)
		}
		inv.PFs = append(inv.PFs, pf)
	}
	return inv, nil
}

func (w *world) use(link, master string) string {
	switch {
	case master != "":
		return "is a port of " + master
	case w.addressed[link]:
		return "has address 192.0.2.1/24"
	}
	return ""
}

// op is one change of the world, which a crash may come before or after.
func (w *world) op(step string, do func() error) error {
	w.changes++
	crash := w.changes == w.crashAt
	if crash && !w.crashAfter {
		return errCrash
	}
	if err := do(); err != nil {
		return err
	}
	w.steps = append(w.steps, step)
	if crash {
		return errCrash
	}
	return nil
}

func (w *world) SetVFs(address string, n int) error {
	c := w.cards[address]
	return w.op(fmt.Sprintf("%s vfs %d", address[5:7], n), func() error {
		if n != 0 && c.vfs != 0 && n != c.vfs {
			return errors.New("device or resource busy")
		}
		for i := range c.vfs {
			if who := w.used[vfName(address, i)]; who != "" && n == 0 {
				w.t.Errorf("VF %d was taken from %s", i, who)
			}
		}
		if n == 0 {
			w.removing()
		}
		c.vfs, c.reps = n, make([]bool, n)
		return nil
	})
}

func (w *world) SetEswitchMode(address, mode string) error {
	c := w.cards[address]
	return w.op(fmt.Sprintf("%s mode %s", address[5:7], mode), func() error {
		switch {
		case c.master != "" || w.addressed["up"+address[5:7]]:
			w.t.Errorf("the wire of %s was cut", address)
		case c.driver == "bnxt_en" && mode == "switchdev" && c.vfs == 0:
			return errors.New("no VFs")
		case c.driver != "bnxt_en" && c.vfs != 0:
			return errors.New("VFs are bound")
		}
		c.mode, c.reps = vf.Mode(mode), make([]bool, c.vfs)
		return nil
	})
}

// uplinks is the world's uplink.Mover.
type uplinks struct{ *world }

func (u uplinks) Change(_ context.Context, c uplink.Change) error {
	return u.op(fmt.Sprintf("%s move %s for %s", c.Device[5:7], c.To, c.Reason), func() error {
		nic := u.cards[c.Device]
		if string(nic.mode) != c.From {
			u.t.Errorf("%s is in mode %s, not in %s", c.Device, nic.mode, c.From)
		}
		nic.mode, nic.reps = vf.Mode(c.To), make([]bool, nic.vfs)
		return nil
	})
}

func (u uplinks) Resume(context.Context) error { return u.resume }

func (u uplinks) Undone() map[string]uplink.Undone { return u.undone }

func (w *world) SetHWTC(link string, on bool) error {
	return w.op(fmt.Sprintf("%s tc %t", link, on), func() error {
		for address, c := range w.cards {
			rules := c.filter || c.busy && w.running["hw-offload"] == "true"
			if rules && !on && strings.Contains(link, address[5:7]) {
				return fmt.Errorf("%s: %w", link, netdev.ErrStillEnabled)
			}
			if link == "up"+address[5:7] {
				c.uplink = on
				return nil
			}
			for i := range c.reps {
				if link == fmt.Sprintf("rep%s%d", address[5:7], i) {
					c.reps[i] = on
					return nil
				}
			}
		}
		return errors.New("no such link")
	})
}

func (w *world) Observe() *OVS {
	return &OVS{Observed: offload.Observed{OtherConfig: maps.Clone(w.config), Running: maps.Clone(w.running)}, Supervised: w.supervised}
}

func (w *world) Merge(_ context.Context, keys map[string]string) error {
	return w.op(fmt.Sprint("ovs ", keys), func() error {
		for key, value := range keys {
			if w.config[key] = value; value == "" {
				delete(w.config, key)
			}
		}
		return nil
	})
}

func (w *world) Restart(context.Context) error {
	return w.op("ovs restart", func() error {
		w.restarts++
		w.running = maps.Clone(w.config)
		return nil
	})
}

func (w *world) DeleteRules() error { w.cleared++; return nil }

func (w *world) users() map[string]string {
	defer w.looked()
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.used)
}

// hold behaves as the ledger's.
func (w *world) hold(devices []string, _ string) (release func(), err error) {
	for _, device := range devices {
		if w.used[device] != "" {
			return nil, fmt.Errorf("%s: %w", device, ledger.ErrBusy)
		}
	}
	for _, device := range devices {
		w.held[device] = true
	}
	return func() { clear(w.held) }, nil
}

// claim gives a VF to a pod unless it is held.
func (w *world) claim(device string) bool {
	if !w.held[device] {
		w.used[device] = "pod default/web"
	}
	return !w.held[device]
}

// agent is a new life of the agent, with what is on the disk.
func (w *world) agent() *Runner {
	w.t.Helper()
	var ovs OVSControl = w
	if w.dpu {
		ovs = DPUOVS{}
	}
	w.registry = prometheus.NewRegistry()
	r, err := New(w.file, w.boot, Deps{
		Policies: func() ([]*v1alpha1.OffloadPolicy, bool) { return w.policies, !w.unknown },
		NodeObject: func() *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: w.labels}, Spec: corev1.NodeSpec{Unschedulable: w.cordoned}}
		},
		Busy:      Busy{Pods: func() []string { return w.pods }, Idle: func() bool { return w.idle }, Uplinks: uplinks{w}, UnitDir: w.units, DPU: w.dpu},
		Inventory: w.inventory, InUse: w.users, Hold: w.hold,
		NIC: w, OVS: ovs, Changed: func() {}, Warn: func(message string) { w.events = append(w.events, message) },
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Registerer: w.registry,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) pass() *Runner {
	w.t.Helper()
	r := w.agent()
	if err := r.pass(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) reserved(r *Runner) map[string]bool {
	inv, err := w.inventory()
	if err != nil {
		w.t.Fatal(err)
	}
	return vf.Settings{}.Purposes(&inv, r.Reserved(), nil).NotForPods()
}

// took gives the steps since the last call.
func (w *world) took() []string {
	steps := w.steps
	w.steps = nil
	return steps
}

func (w *world) String() string {
	text := fmt.Sprintf("ovs %v running %v;", w.config, w.running)
	for _, address := range slices.Sorted(maps.Keys(w.cards)) {
		c := w.cards[address]
		text += fmt.Sprintf(" %s: %d VFs %s %t", address, c.vfs, c.mode, c.uplink)
		if c.mode == vf.Switchdev {
			text += fmt.Sprint(c.reps)
		}
	}
	return text
}

func policy(name string, age int, spec v1alpha1.OffloadPolicySpec) *v1alpha1.OffloadPolicy {
	if len(spec.PFSelector.Vendors)+len(spec.PFSelector.Names)+len(spec.PFSelector.PCIAddresses) == 0 {
		spec.PFSelector.Vendors = []string{"15b3"}
	}
	created := metav1.NewTime(time.Unix(int64(1000-age), 0))
	return &v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created, Generation: 1}, Spec: spec,
		Status: v1alpha1.OffloadPolicyStatus{Changing: []string{"n1"}}}
}
