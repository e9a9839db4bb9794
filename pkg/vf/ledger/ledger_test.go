package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const boot = "4fa1"

var two = []string{"0000:03:00.2", "0000:03:00.3"}

func start(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir, boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// reopen is a restart of the agent.
func reopen(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return start(t, l.store.dir)
}

func pod(n int) Claim {
	return Claim{
		Resource:  "ovn-offload.io/vf",
		Pod:       types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("pod-%d", n)},
		UID:       types.UID(fmt.Sprintf("uid-%d", n)),
		Sandbox:   fmt.Sprintf("sandbox-%d", n),
		Interface: "eth0", NetNS: "/run/netns/x", Inode: 4026532000,
	}
}

func take(t *testing.T, l *Ledger, devices []string, c Claim) Claim {
	t.Helper()
	got, err := l.Take(devices, c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func original() Original {
	return Original{
		Name: "ens1f0v0", MAC: vf.MAC{2, 0, 0, 0, 0, 1}, AltNames: []string{"enp3s0f0v0"}, MTU: 1500,
		Driver: "mlx5_core", RDMA: []string{"mlx5_2"},
	}
}

func TestClaim_LivesFromTakeToRelease(t *testing.T) {
	l := start(t, t.TempDir())
	c := take(t, l, two[:1], pod(1))
	if c.Device != two[0] || c.Phase != Claimed || c.Boot != boot {
		t.Fatalf("took %+v", c)
	}
	if err := l.SetPhase(c.Device, c.Sandbox, Attaching); err == nil {
		t.Error("a device may be changed whose state was not kept")
	}
	if _, err := l.Begin(c.Device, c.Sandbox, original()); err != nil {
		t.Fatal(err)
	}
	if now, _ := l.Holder(c.Device); now.Phase != Attaching {
		t.Errorf("with its original state the claim is %s", now.Phase)
	}
	if err := l.SetPhase(c.Device, c.Sandbox, Attached); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	if err := l.SetPhase(c.Device, c.Sandbox, Claimed); err == nil {
		t.Error("a phase went back")
	}
	// A second look comes too late: the device is the pod's by now.
	kept, err := l.Begin(c.Device, c.Sandbox, Original{Name: "eth0"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(original(), kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	want := c
	o := original()
	want.Phase, want.Original = Attached, &o
	if diff := cmp.Diff([]Claim{want}, l.Claims()); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if err := l.Release(c.Device, c.Sandbox); err != nil {
		t.Fatal(err)
	}
	if got := reopen(t, l).Claims(); len(got) != 0 {
		t.Errorf("after release: %+v", got)
	}
}

func TestOnChange_IsCalledOncePerChange(t *testing.T) {
	l := start(t, t.TempDir())
	changes := 0
	l.OnChange(func() { changes++ })
	c := take(t, l, two[:1], pod(1))
	if _, err := l.Take(two[:1], pod(2)); !errors.Is(err, ErrBusy) || changes != 1 {
		t.Errorf("taken once and refused once: %d changes, %v", changes, err)
	}
	if err := l.SetPhase(c.Device, c.Sandbox, Orphan); err != nil || changes != 2 {
		t.Errorf("another phase: %d changes, %v", changes, err)
	}
	if err := l.SetPhase(c.Device, c.Sandbox, Orphan); err != nil || changes != 2 {
		t.Errorf("the same phase: %d changes, %v", changes, err)
	}
	if err := l.Release(c.Device, c.Sandbox); err != nil || changes != 3 {
		t.Errorf("released: %d changes, %v", changes, err)
	}
}

func TestRelease_LateDELKeepsClaimOfNextPod(t *testing.T) {
	l := start(t, t.TempDir())
	take(t, l, two[:1], pod(1))
	if err := l.SetPhase(two[0], "sandbox-1", Orphan); err != nil {
		t.Fatal(err)
	}
	// The kubelet has given it to the next pod; it is not detached yet.
	_, err := l.Take(two[:1], pod(2))
	var busy *BusyError
	if !errors.Is(err, ErrBusy) || !errors.As(err, &busy) || busy.Holders[0].Pod.Name != "pod-1" {
		t.Fatalf("taking what is in use: %v", err)
	}
	if err := l.Release(two[0], "sandbox-1"); err != nil {
		t.Fatal(err)
	}
	take(t, l, two[:1], pod(2))
	for name, do := range map[string]func() error{
		"release":          func() error { return l.Release(two[0], "sandbox-1") },
		"phase":            func() error { return l.SetPhase(two[0], "sandbox-1", Orphan) },
		"original":         func() error { _, err := l.Begin(two[0], "sandbox-1", original()); return err },
		"without a holder": func() error { return l.Release(two[1], "sandbox-1") },
	} {
		if err := do(); !errors.Is(err, ErrNotHeld) {
			t.Errorf("%s by a former holder: %v", name, err)
		}
	}
	if c, _ := l.Holder(two[0]); c.Sandbox != "sandbox-2" || c.Phase != Claimed {
		t.Errorf("holder is %+v", c)
	}
}

func TestHold_HeldDeviceIsNotTaken(t *testing.T) {
	l := start(t, t.TempDir())
	take(t, l, two[:1], pod(1))
	if _, err := l.Hold(two, "a reason"); !errors.Is(err, ErrBusy) {
		t.Fatalf("holding what a pod has: %v", err)
	}
	if err := l.Held(two[1]); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	if err := l.Release(two[0], "sandbox-1"); err != nil {
		t.Fatal(err)
	}
	release, err := l.Hold(two[:1], "a reason")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(two[:1], pod(1)); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "a reason") || l.Held(two[0]) == nil {
		t.Errorf("taking what is held: %v", err)
	}
	if c := take(t, l, two, pod(2)); c.Device != two[1] {
		t.Errorf("of two devices, one held: %s", c.Device)
	}
	release()
	take(t, l, two[:1], pod(1))
}

func TestTake_AttachmentsOfOnePodDoNotShare(t *testing.T) {
	l := start(t, t.TempDir())
	second := pod(1)
	second.Interface = "net1"
	if a, b := take(t, l, two, pod(1)), take(t, l, two, second); a.Device != two[0] || b.Device != two[1] {
		t.Fatalf("eth0 has %s, net1 has %s", a.Device, b.Device)
	}
	l = reopen(t, l)
	// The same ADD again, in another order than before.
	if b, a := take(t, l, two, second), take(t, l, two, pod(1)); a.Device != two[0] || b.Device != two[1] {
		t.Errorf("again: eth0 has %s, net1 has %s", a.Device, b.Device)
	}
	third := pod(1)
	third.Interface = "net2"
	if _, err := l.Take(two, third); !errors.Is(err, ErrBusy) {
		t.Errorf("a third of two: %v", err)
	}
	if _, err := l.Take(nil, third); err == nil || errors.Is(err, ErrBusy) {
		t.Errorf("one of none: %v", err)
	}
}

func TestTake_OrphanIsNotResumed(t *testing.T) {
	l := start(t, t.TempDir())
	take(t, l, two[:1], pod(1))
	if err := l.SetPhase(two[0], "sandbox-1", Orphan); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(two[:1], pod(1)); !errors.Is(err, ErrBusy) {
		t.Errorf("ADD after DEL had begun: %v", err)
	}
}

func TestTake_ConcurrentCallsShareNoDevice(t *testing.T) {
	l := start(t, t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]string{}
	for n := range 16 {
		wg.Go(func() {
			c, err := l.Take(two, pod(n))
			if errors.Is(err, ErrBusy) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got[c.Device] != "" {
				t.Errorf("pod %d: %s, which %q has: %v", n, c.Device, got[c.Device], err)
			}
			got[c.Device] = c.Sandbox
		})
	}
	wg.Wait()
	if len(got) != len(two) {
		t.Errorf("given: %v", got)
	}
}

func TestTake_RefusesInvalidDeviceOrPod(t *testing.T) {
	l := start(t, t.TempDir())
	for _, device := range []string{"", "../x", ".lock", "a/b"} {
		if _, err := l.Take([]string{device}, pod(1)); err == nil {
			t.Errorf("device %q was given", device)
		}
	}
	c := pod(1)
	c.UID = ""
	if _, err := l.Take(two, c); err == nil {
		t.Error("a pod without uid got a device")
	}
}

func TestOpen_SecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	if _, err := Open(dir, boot); err == nil {
		t.Fatal("opened twice")
	}
	reopen(t, l)
}

func TestOpen_DropsClaimsOfAnotherBoot(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	take(t, l, two[:1], pod(1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, "another")
	if err != nil {
		t.Fatal(err)
	}
	if c := l.Claims(); len(c) != 0 {
		t.Errorf("claims %v", c)
	}
	if c := reopen(t, l).Claims(); len(c) != 0 { // as it was taken in this boot
		t.Errorf("claims that were kept on the disk: %v", c)
	}
}

func TestOpen_DamagedRecordBlocksItsDevice(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"half":      func(b []byte) []byte { return b[:len(b)/2] },
		"a bit":     func(b []byte) []byte { return []byte(strings.Replace(string(b), "sandbox-1", "sandbox-9", 1)) },
		"not JSON":  func([]byte) []byte { return []byte("hello\n") },
		"elsewhere": func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "03:00.2", "03:00.7")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := start(t, t.TempDir())
			take(t, l, two[:1], pod(1))
			good := take(t, l, two[1:], pod(2))
			file := filepath.Join(l.store.dir, two[0]+".json")
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			spoilt := spoil(raw)
			if err := os.WriteFile(file, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // at the next start it is still so
				l = reopen(t, l)
				if diff := cmp.Diff([]Claim{good}, l.Claims()); diff != "" {
					t.Fatalf("the others (-want +got):\n%s", diff)
				}
				_, err := l.Take(two[:1], pod(3))
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), two[0]+".damaged") {
					t.Fatalf("taking a device of which nothing is known: %v", err)
				}
				if err := l.Release(two[0], "sandbox-1"); !errors.Is(err, ErrDamaged) {
					t.Fatalf("releasing it: %v", err)
				}
				if kept, err := os.ReadFile(filepath.Join(l.store.dir, two[0]+".damaged")); err != nil || string(kept) != string(spoilt) {
					t.Fatalf("kept %q: %v", kept, err)
				}
			}
			if err := os.Remove(filepath.Join(l.store.dir, two[0]+".damaged")); err != nil { // as docs/vf.md says
				t.Fatal(err)
			}
			take(t, reopen(t, l), two[:1], pod(3))
		})
	}
}

// TestOpen_DamageBeforeBootBlocksNothing: no pod has a device since, as with good records of
// another boot. What was damaged in this boot, stays so.
func TestOpen_DamageBeforeBootBlocksNothing(t *testing.T) {
	l := start(t, t.TempDir())
	take(t, l, two[:1], pod(1))
	spoil := func(device string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(l.store.dir, device+".json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil(two[0])
	l = reopen(t, l)
	if _, err := l.Take(two[:1], pod(2)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("in the same boot: %v", err)
	}
	for _, next := range []string{"5bb2", "6cc3"} { // the second time it is damaged by the end of the machine
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if l, err = Open(l.store.dir, next); err != nil {
			t.Fatal(err)
		}
		if c := take(t, l, two[:1], pod(2)); c.Boot != next {
			t.Errorf("%+v", c)
		}
		spoil(two[0])
	}
	_ = l.Close()
	if old, err := filepath.Glob(filepath.Join(l.store.dir, "*.old")); err != nil || len(old) != 2 {
		t.Errorf("kept for people: %q, %v", old, err)
	}
}

func TestOpen_RecordUnderAnotherNameIsDamaged(t *testing.T) {
	l := start(t, t.TempDir())
	c := take(t, l, two[:1], pod(1))
	raw, err := os.ReadFile(filepath.Join(l.store.dir, two[0]+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.store.dir, two[1]+".json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	if diff := cmp.Diff([]Claim{c}, l.Claims()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := l.Damaged()[two[1]]; !errors.Is(err, ErrDamaged) {
		t.Errorf("the copy is taken for good: %v", err)
	}
}

func TestOpen_NewerVersionIsRefused(t *testing.T) {
	l := start(t, t.TempDir())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.store.dir, two[0]+".json")
	if err := os.WriteFile(file, []byte(`{"version":2,"who":"knows"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(l.store.dir, boot); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

var errCrash = errors.New("crash")

// crashy stops at the given step, counted from one, and at all after it.
func crashy(dir string, at int) (store, *int) {
	steps := 0
	return store{dir: dir, step: func(string) error {
		if steps++; steps >= at {
			return errCrash
		}
		return nil
	}}, &steps
}

// TestLedger_CrashAtEachStepRecovers stops each operation at each of its steps. Whatever was
// acknowledged before is there afterwards, and the operation can be repeated.
func TestLedger_CrashAtEachStepRecovers(t *testing.T) {
	device, sandbox := two[0], "sandbox-1"
	ops := []struct {
		name string
		do   func(*Ledger) error
	}{
		{"take", func(l *Ledger) error { _, err := l.Take(two[:1], pod(1)); return err }},
		{"original", func(l *Ledger) error { _, err := l.Begin(device, sandbox, original()); return err }},
		{"orphan", func(l *Ledger) error { return l.SetPhase(device, sandbox, Orphan) }},
		{"release", func(l *Ledger) error { return l.Release(device, sandbox) }},
	}
	for n, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			for at, done := 1, false; !done; at++ {
				dir := t.TempDir()
				l := start(t, dir)
				for _, before := range ops[:n] {
					if err := before.do(l); err != nil {
						t.Fatal(err)
					}
				}
				old := l.Claims()
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				s, steps := crashy(dir, at)
				l, err := open(s, boot)
				if err != nil {
					t.Fatal(err)
				}
				err = op.do(l)
				if done = err == nil; !done && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				if done && *steps < 2 {
					t.Fatal("no steps: nothing was tested")
				}
				if !done && !cmp.Equal(old, l.Claims()) {
					t.Errorf("step %d: not acknowledged, but in memory: %s", at, cmp.Diff(old, l.Claims()))
				}
				l = reopen(t, l)
				if len(l.Damaged()) != 0 {
					t.Fatalf("step %d: damaged: %v", at, l.Damaged())
				}
				// A release whose last step failed is the one that may be done.
				if err := op.do(l); err != nil && (op.name != "release" || !errors.Is(err, ErrNotHeld)) {
					t.Errorf("step %d: again: %v", at, err)
				}
				if c, ok := l.Holder(device); ok && n >= 1 && c.Original == nil {
					t.Errorf("step %d: the original state is lost: %+v", at, c)
				}
				_ = l.Close()
			}
		})
	}
}

// TestLedger_RandomCrashesKeepClaims compares with what was acknowledged: a device is in one
// sandbox from a Take that succeeded to a Release that was tried.
func TestLedger_RandomCrashesKeepClaims(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		holder, leaving := map[string]string{}, map[string]bool{}
		for range 12 {
			s, _ := crashy(dir, 1+r.IntN(80))
			l, err := open(s, boot)
			if err != nil {
				t.Fatal(err)
			}
			for device, who := range holder {
				if c, ok := l.Holder(device); (!ok || c.Sandbox != who) && !leaving[device] {
					t.Fatalf("seed %d: %s was %s's, now %+v", seed, device, who, c)
				}
			}
			for err = nil; !errors.Is(err, errCrash); {
				n := r.IntN(5)
				device := two[r.IntN(2)]
				if r.IntN(2) == 0 {
					var c Claim
					if c, err = l.Take(two, pod(n)); err == nil {
						if who := holder[c.Device]; who != "" && who != c.Sandbox && !leaving[c.Device] {
							t.Fatalf("seed %d: %s is %s's and was given to %s", seed, c.Device, who, c.Sandbox)
						}
						holder[c.Device], leaving[c.Device] = c.Sandbox, false
					}
					continue
				}
				sandbox := pod(n).Sandbox
				mine := holder[device] == sandbox
				if err = l.Release(device, sandbox); err == nil && !mine && !leaving[device] {
					if c := holder[device]; c != "" {
						t.Fatalf("seed %d: %s released %s of %s", seed, sandbox, device, c)
					}
				}
				switch {
				case err == nil:
					delete(holder, device)
					delete(leaving, device)
				case errors.Is(err, errCrash) && mine:
					leaving[device] = true
				}
			}
			_ = l.Close()
		}
	}
}

func TestLedger_CallersCannotChangeIt(t *testing.T) {
	l := start(t, t.TempDir())
	take(t, l, two[:1], pod(1))
	o := original()
	kept, err := l.Begin(two[0], "sandbox-1", o)
	if err != nil {
		t.Fatal(err)
	}
	o.MAC[0], kept.RDMA[0] = 0xff, "other"
	l.Claims()[0].Original.AltNames[0] = "other"
	c, _ := l.Holder(two[0])
	if diff := cmp.Diff(original(), *c.Original); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUpgrade_ClaimsOfFormerVersionHold: testdata has the records as an agent wrote them before networks were values.
func TestUpgrade_ClaimsOfFormerVersionHold(t *testing.T) {
	dir := t.TempDir()
	former, err := txtar.ParseFile("testdata/version1.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range former.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := start(t, dir)
	first, second := pod(1), pod(2)
	first.Network, first.MTU = "ovn-offload", 1400
	for i, c := range []*Claim{&first, &second} {
		o := original()
		c.Device, c.Boot, c.Original, c.Phase = two[i], boot, &o, []Phase{Attached, Orphan}[i]
	}
	if diff := cmp.Diff([]Claim{first, second}, l.Claims()); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if name := l.Claims()[0].AttachmentName(); name != "eth0" {
		t.Errorf("the runtime asks for eth0, the claim is of %q", name)
	}
	if _, err := l.Take(two, pod(3)); !errors.Is(err, ErrBusy) {
		t.Errorf("both devices have holders: %v", err)
	}
	if again := take(t, l, two[:1], pod(1)); again.Phase != Attached {
		t.Errorf("the same sandbox: %+v", again)
	}
	for i, c := range []Claim{first, second} {
		if err := l.Release(two[i], c.Sandbox); err != nil {
			t.Error(err)
		}
	}
	take(t, l, two, pod(3))
}
