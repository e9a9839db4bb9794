package vf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// The mode is devlink's answer, whatever the names in sysfs look like.
func TestMode_IsAnswerOfDevlink(t *testing.T) {
	for answer, want := range map[string]Mode{"": Legacy, "legacy": Legacy, "switchdev": Switchdev, "switchdev_inactive": Unknown} {
		w := load(t, "testdata/connectx6dx-switchdev.txtar")
		w.Kernel.Eswitches["0000:03:00.0"] = netdev.Eswitch{Mode: answer}
		pf := read(t, node(t, w)).PFs[0]
		if pf.Eswitch.Mode != want {
			t.Errorf("devlink says %q: %s, want %s", answer, pf.Eswitch.Mode, want)
		}
		if has := pf.VFs[0].Representor != nil; has != (want == Switchdev) {
			t.Errorf("devlink says %q: representor matched: %v", answer, has)
		}
	}
}

// TestRead_FailedQuestionKeepsLastAnswer: a driver that is busy has not changed the NIC. All that the inventory says stays
// as it was, whichever question fails.
func TestRead_FailedQuestionKeepsLastAnswer(t *testing.T) {
	for _, archive := range []string{"connectx6dx-switchdev", "bluefield2-dpu", "e810-switchdev", "two-cards"} {
		for _, op := range []string{"Eswitch", "DevlinkPorts", "DevlinkParam", "RDMA"} {
			w := load(t, "testdata/"+archive+".txtar")
			n := node(t, w)
			want := read(t, n)
			w.Kernel.Fail = func(asked string) error {
				if asked == op {
					return unix.EBUSY
				}
				return nil
			}
			for range 2 {
				got := read(t, n)
				if len(got.Problems) == 0 {
					t.Errorf("%s without %s: no problem", archive, op)
				}
				got.Problems = want.Problems
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(PCIAddress{})); diff != "" {
					t.Errorf("%s without %s (-answered +failed):\n%s", archive, op, diff)
				}
			}
		}
	}
}

// TestRead_NoAnswerYetIsUnknown: neither legacy, which would take the VFs from the kubelet, nor without RDMA devices of
// its own.
func TestRead_NoAnswerYetIsUnknown(t *testing.T) {
	w := load(t, "testdata/connectx6dx-switchdev.txtar")
	w.Kernel.Fail = func(op string) error {
		if op == "Eswitch" || op == "RDMA" {
			return unix.EBUSY
		}
		return nil
	}
	n := node(t, w)
	inv := read(t, n)
	if inv.PFs[0].Eswitch.Mode != Unknown || inv.RDMA != rdmaUnknown {
		t.Errorf("eswitch %s, RDMA %s", inv.PFs[0].Eswitch.Mode, inv.RDMA)
	}
	if exclusive, err := NewLive(n, slog.New(slog.DiscardHandler)).Exclusive(); err == nil {
		t.Errorf("RDMA devices: exclusive is %t", exclusive)
	}
}

// TestWatch_AsksAgainAfterFailedQuestion: no event tells when a driver would answer.
func TestWatch_AsksAgainAfterFailedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := load(t, "testdata/connectx6dx-switchdev.txtar")
		failures, asked := 2, 0 // of both PFs
		w.Kernel.Fail = func(op string) error {
			if op != "Eswitch" {
				return nil
			}
			if asked++; failures > 0 {
				failures--
				return unix.EBUSY
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		live := NewLive(node(t, w), slog.New(slog.DiscardHandler))
		done := make(chan error)
		go func() { done <- live.Run(ctx) }()
		synctest.Wait()
		if mode := live.Inventory().PFs[0].Eswitch.Mode; mode != Unknown {
			t.Errorf("at first the mode is %s", mode)
		}
		if v, err := live.VF("0000:03:00.2"); err != nil || v.Representor == "" {
			t.Errorf("a VF of a NIC that had not answered, and would now: %+v, %v", v, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if mode := live.Inventory().PFs[0].Eswitch.Mode; mode != Switchdev || len(live.Inventory().Problems) > 0 {
			t.Errorf("after a minute the mode is %s, with the problems %q", mode, live.Inventory().Problems)
		}
		asked = 0
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked > 0 {
			t.Errorf("a NIC that answers was asked %d times in an hour without an event", asked)
		}
		failures = 1 << 30
		w.Kernel.Tell(netdev.DeviceEvent{Source: "link"})
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked < 60 || asked > 200 { // two PFs
			t.Errorf("a NIC that does not answer was asked %d times in an hour", asked)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestRead_AsksPFsOnly: a VF is an instance of devlink with a lock of its own.
func TestRead_AsksPFsOnly(t *testing.T) {
	w, err := vftest.Parse([]byte(bigNode()))
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	w.Kernel.Fail = func(op string) error { asked[op]++; return nil }
	n := node(t, w)
	read(t, n)
	delete(asked, "Features") // as many as there are links, the first time
	if diff := cmp.Diff(map[string]int{"Eswitch": 8, "DevlinkPorts": 1, "DevlinkParam": 8, "RDMA": 1}, asked); diff != "" {
		t.Errorf("questions about 8 PFs with 1,000 VFs (-want +got):\n%s", diff)
	}
}

// A kernel that does not answer costs what it would have said, no more.
func TestRead_UnansweredQueryIsAProblem(t *testing.T) {
	for _, op := range []string{"Eswitch", "DevlinkPorts", "DevlinkParam", "Features", "RDMA"} {
		w := load(t, "testdata/connectx6dx-switchdev.txtar")
		w.Kernel.Fail = func(asked string) error {
			if asked == op {
				return errors.New(op + " is out of order")
			}
			return nil
		}
		inv := read(t, node(t, w))
		if len(inv.PFs) != 2 || len(inv.PFs[0].VFs) != 4 {
			t.Errorf("without %s: %d PFs", op, len(inv.PFs))
		}
		if !strings.Contains(strings.Join(inv.Problems, "\n"), op+" is out of order") {
			t.Errorf("without %s the problems are %q", op, inv.Problems)
		}
	}
}

// Without devlink ports the names in sysfs do.
func TestRepresentor_NamesDecideWithoutDevlinkPorts(t *testing.T) {
	w := load(t, "testdata/connectx6dx-switchdev.txtar")
	w.Kernel.Ports = nil
	pf := read(t, node(t, w)).PFs[0]
	if u := pf.Uplink(); u == nil || u.Name != "ens1f0np0" {
		t.Errorf("uplink %+v", u)
	}
	if r := pf.VFs[3].Representor; r == nil || r.Name != "ens1f0npf0vf3" {
		t.Errorf("representor of VF 3: %+v", r)
	}
}

// Names of DPUs before controllers had numbers: the functions belong to no host
// here, so the representors are listed and matched to none.
func TestRepresentor_OldDPUNamesMatchNothing(t *testing.T) {
	w := load(t, "testdata/bluefield2-dpu.txtar")
	for i := range w.Kernel.Ports {
		w.Kernel.Ports[i].Controller, w.Kernel.Ports[i].External = nil, nil
	}
	for _, file := range w.Tree {
		if text := string(file.Data); strings.HasPrefix(text, "c1pf") {
			file.Data = []byte(text[2:])
		}
	}
	pf := read(t, node(t, w)).PFs[1]
	var names []string
	for _, r := range pf.Representors {
		names = append(names, r.Function.String()+"="+r.Name)
	}
	if got := strings.Join(names, " "); got != "pf0=pf0hpf pf0vf0=pf0vf0 pf0vf1=pf0vf1" {
		t.Errorf("representors %s", got)
	}
	if r := pf.SFs[0].Representor; r == nil || r.Name != "en3f0pf0sf0" || r.State != "attached" {
		t.Errorf("representor of the SF: %+v", r)
	}
}

// A switch whose PF numbers are not the digits of the PCI addresses.
func TestPFNumber_IsThatOfSwitch(t *testing.T) {
	w := load(t, "testdata/e810-switchdev.txtar")
	for i := range w.Kernel.Ports {
		if p := &w.Kernel.Ports[i]; p.PF != nil {
			seven := uint32(7)
			p.PF = &seven
		}
	}
	pf := read(t, node(t, w)).PFs[0]
	if pf.Number == nil || *pf.Number != 7 {
		t.Errorf("PF number %v, want 7", pf.Number)
	}
	if r := pf.VFs[1].Representor; r == nil || r.Name != "ens2f0npf0vf1" {
		t.Errorf("representor of VF 1: %+v", r)
	}
}

// Of representors with several PF numbers under one function, the wire's number
// decides; without it, nothing does.
func TestPFNumber_UplinkDecidesAmbiguity(t *testing.T) {
	for wire, want := range map[string]string{"p1": "rep1", "p5": ""} {
		w, err := vftest.Parse([]byte(`
-- devices/pci0000:00/0000:03:00.0 --
class=0x020000  vendor=0x15b3  device=0x1021  sriov_totalvfs=4  sriov_numvfs=1
virtfn0 -> ../0000:03:00.1
-- devices/pci0000:00/0000:03:00.1 --
class=0x020000
physfn -> ../0000:03:00.0
-- devices/pci0000:00/0000:03:00.0/net/wire --
phys_switch_id=aa  phys_port_name=` + wire + `
-- devices/pci0000:00/0000:03:00.0/net/rep0 --
phys_switch_id=aa  phys_port_name=pf0vf0
-- devices/pci0000:00/0000:03:00.0/net/rep1 --
phys_switch_id=aa  phys_port_name=pf1vf0
-- devlink --
dev pci/0000:03:00.0  mode=switchdev
`))
		if err != nil {
			t.Fatal(err)
		}
		pf, got := read(t, node(t, w)).PFs[0], ""
		if r := pf.VFs[0].Representor; r != nil {
			got = r.Name
		}
		if got != want || (len(pf.Problems) > 0) != (want == "") {
			t.Errorf("wire %s: representor %q, want %q; problems %q", wire, got, want, pf.Problems)
		}
	}
}

// A NIC with two ports on one function is normal.
func TestPF_MayHaveTwoPorts(t *testing.T) {
	w, err := vftest.Parse([]byte(`
-- devices/pci0000:00/0000:03:00.0 --
class=0x020000
-- devices/pci0000:00/0000:03:00.0/net/b --
phys_switch_id=aa  phys_port_name=p0
-- devices/pci0000:00/0000:03:00.0/net/a --
phys_switch_id=aa  phys_port_name=p1
`))
	if err != nil {
		t.Fatal(err)
	}
	pf := read(t, node(t, w)).PFs[0]
	if len(pf.Ports) != 2 || pf.Uplink().Name != "b" || len(pf.Problems) != 0 {
		t.Errorf("ports %+v, problems %q", pf.Ports, pf.Problems)
	}
}

// A representor that has gone, or is of another switch, is not replaced by one
// with a similar name.
func TestRepresentor_MissingIsNotReplaced(t *testing.T) {
	for name, spoil := range map[string]func(w *vftest.World){
		"gone": func(w *vftest.World) { w.RemoveNetdev("ensaff0_0") },
		"of another switch": func(w *vftest.World) {
			for path, file := range w.Tree {
				if strings.HasSuffix(path, "net/ensaff0_0/phys_switch_id") {
					file.Data = []byte("cc\n")
				}
			}
		},
	} {
		w := load(t, "testdata/two-cards.txtar")
		spoil(w)
		pf := read(t, node(t, w)).PFs[2]
		if pf.Name != "0000:af:00.0" || pf.VFs[0].Representor != nil {
			t.Errorf("%s: %s got %+v", name, pf.Name, pf.VFs[0].Representor)
		}
		if !strings.Contains(strings.Join(pf.Problems, "\n"), "no representor in this namespace: pf0vf0") {
			t.Errorf("%s: problems %q", name, pf.Problems)
		}
	}
}

func TestLAG_ConditionsOfBond(t *testing.T) {
	for reason, spoil := range map[string]func(w *vftest.World){
		"":                                    func(*vftest.World) {},
		"ens3bf1np1 is not in switchdev mode": func(w *vftest.World) { w.Kernel.Eswitches["0000:3b:00.1"] = netdev.Eswitch{Mode: "legacy"} },
		"its ports are of different cards": func(w *vftest.World) {
			set(w, "slaves", "ens3bf0np0 ensaff0np0")
		},
		"ens3bf0_0 is not an uplink":         func(w *vftest.World) { set(w, "slaves", "ens3bf0_0 ens3bf0np0") },
		"NICs do not offload mode broadcast": func(w *vftest.World) { set(w, "mode", "broadcast 3") },
		"it has 1 ports, not two":            func(w *vftest.World) { set(w, "slaves", "ens3bf0np0") },
	} {
		w := load(t, "testdata/two-cards.txtar")
		spoil(w)
		if b := read(t, node(t, w)).Bonds[0]; b.Reason != reason || b.LAG != (reason == "") {
			t.Errorf("%v, %q, want %q", b.LAG, b.Reason, reason)
		}
	}
}

func set(w *vftest.World, attr, value string) {
	w.Tree["devices/virtual/net/bond0/bonding/"+attr].Data = []byte(value)
}

func TestRead_FailedListingIsAnError(t *testing.T) {
	for _, dir := range []string{"class/net", "class/infiniband", "bus/auxiliary/devices", "bus/pci/devices"} {
		w := load(t, "testdata/plain.txtar")
		w.Faults[dir] = errors.New("out of order")
		if _, err := node(t, w).Read(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s cannot be listed: %v", dir, err)
		}
	}
}

func TestWatch_ReportsChangedInventoriesOnly(t *testing.T) {
	w := load(t, "testdata/connectx6dx-switchdev.txtar")
	n := node(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan Inventory, 8)
	done := make(chan error, 1)
	go func() { done <- n.Watch(ctx, func(inv Inventory) { got <- inv }) }()
	if inv := receive(t, got); inv.PFs[0].VFs[0].Netdev == nil {
		t.Error("VF 0 has no netdev at first")
	}
	w.RemoveNetdev("ens1f0v0") // no read until an event comes
	for i := range 20 {
		if w.Kernel.Tell(netdev.DeviceEvent{Source: "link", What: fmt.Sprint(i)}) != 1 {
			t.Fatal("no watch")
		}
	}
	if inv := receive(t, got); inv.PFs[0].VFs[0].Netdev != nil {
		t.Error("VF 0 still has its netdev")
	}
	w.Kernel.Tell(netdev.DeviceEvent{Source: "lost"}) // and nothing has changed
	select {
	case <-got:
		t.Error("the same inventory was reported again")
	case <-time.After(3 * debounce):
	}
	cancel()
	if err := receive(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if w.Kernel.Tell(netdev.DeviceEvent{}) != 0 {
		t.Error("the subscription is still there")
	}
}

// representorsNode is one NIC with n VFs, of which pods have the netdevs.
func representorsNode(n int) string {
	var b, devlink strings.Builder
	fmt.Fprintf(&b, "-- devices/pci0000:00/0000:03:00.0 --\nclass=0x020000  sriov_totalvfs=%d  sriov_numvfs=0\n", n)
	fmt.Fprintf(&b, "-- devices/pci0000:00/0000:03:00.0/net/up0 --\nphys_port_name=p0  phys_switch_id=aa  hw-tc-offload=on\n")
	for i := range n {
		fmt.Fprintf(&b, "-- devices/pci0000:00/0000:03:00.0/net/rep%d --\nphys_port_name=pf0vf%d  phys_switch_id=aa  hw-tc-offload=on\n", i, i)
	}
	fmt.Fprintf(&devlink, "-- devlink --\ndev pci/0000:03:00.0  mode=switchdev\n")
	return b.String() + devlink.String()
}

// TestWatch_AsksFeaturesOfChangedLinksOnly: each question takes the kernel's lock of
// links three times, which drivers hold for long while they bring VFs up.
func TestWatch_AsksFeaturesOfChangedLinksOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := vftest.Parse([]byte(representorsNode(256)))
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		w.Kernel.Fail = func(op string) error {
			if op == "Features" {
				asked++
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var last Inventory
		done := make(chan error)
		n := node(t, w)
		go func() { done <- n.Watch(ctx, func(inv Inventory) { last = inv }) }()
		links, err := w.Links()
		if err != nil {
			t.Fatal(err)
		}
		step := func(what string, want int, events ...netdev.DeviceEvent) {
			t.Helper()
			synctest.Wait()
			asked = 0
			for _, e := range events {
				w.Kernel.Tell(e)
			}
			time.Sleep(2 * maxDebounce)
			synctest.Wait()
			if asked != want {
				t.Errorf("%s: %d questions about features, want %d", what, asked, want)
			}
		}
		synctest.Wait()
		if asked != 257 {
			t.Errorf("at first %d questions", asked)
		}
		of := func(i int) netdev.DeviceEvent {
			return netdev.DeviceEvent{Source: "link", What: links[i].Name, Index: links[i].Index}
		}
		step("a link", 1, of(5))
		step("two links, one twice", 2, of(5), of(6), of(5))
		step("devlink", 0, netdev.DeviceEvent{Source: "devlink"})
		step("an address", 0, netdev.DeviceEvent{Source: "address"})
		w.Kernel.HWTC[links[7].Name] = false
		step("a feature", 1, of(7))
		var off []string
		for _, r := range last.PFs[0].Representors {
			if r.HWTC == nil || !*r.HWTC {
				off = append(off, r.Name)
			}
		}
		if len(off) != 1 || off[0] != links[7].Name {
			t.Errorf("hw-tc-offload is off on %q", off)
		}
		step("lost events", 257, netdev.DeviceEvent{Source: "lost"})
		asked = 0
		if read(t, n); asked != 257 { // a change without an event yet
			t.Errorf("a look of its own: %d questions", asked)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing within 10s")
		panic("not reached")
	}
}

// Live has the newest inventory, and goes on when the kernel ends a watch.
func TestLive_ContinuesAfterWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := load(t, "testdata/connectx6dx-switchdev.txtar")
		ctx, stop := context.WithCancel(t.Context())
		failures := 1
		w.Kernel.Fail = func(op string) error {
			if op == "Watch" && failures > 0 {
				failures--
				return errors.New("no buffers")
			}
			return nil
		}
		live := NewLive(node(t, w), slog.New(slog.DiscardHandler))
		seen := 0
		live.OnChange(func(Inventory) { seen++ })
		if live.Inventory() != nil {
			t.Error("there is an inventory before the first")
		}
		done := make(chan error)
		go func() { done <- live.Run(ctx) }()
		time.Sleep(watchBackoff + time.Second)
		synctest.Wait()
		if inv := live.Inventory(); inv == nil || len(inv.PFs) != 2 || seen != 1 {
			t.Fatalf("after a failure: %+v, %d calls", inv, seen)
		}
		w.RemoveNetdev("ens1f0v0")
		w.Kernel.Tell(netdev.DeviceEvent{Source: "link"})
		time.Sleep(time.Second)
		synctest.Wait()
		if live.Inventory().PFs[0].VFs[0].Netdev != nil || seen != 2 {
			t.Errorf("a change was missed; %d calls", seen)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A sweep asks for the VF of each pod of a NIC that is absent: one read answers all.
func TestLive_MissingVFCostsOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := load(t, "testdata/connectx6dx-switchdev.txtar")
		looks := 0
		w.Kernel.Fail = func(op string) error {
			if op == "RDMA" {
				looks++
			}
			return nil
		}
		live := NewLive(node(t, w), slog.New(slog.DiscardHandler))
		for range 50 {
			if _, err := live.VF("0000:99:00.1"); err == nil {
				t.Fatal("a VF that is not there was found")
			}
		}
		if looks != 1 {
			t.Errorf("%d looks", looks)
		}
		time.Sleep(debounce)
		if v, err := live.VF("0000:03:00.2"); err != nil || v.Function.Number != 0 || v.Representor == "" || looks != 2 {
			t.Errorf("later: %+v, %v, %d looks", v, err, looks)
		}
	})
}

// A pod's VF comes back before there is an inventory: its RDMA device has to go
// along all the same.
func TestLive_KnowsRDMAModeBeforeInventory(t *testing.T) {
	for mode, want := range map[string]bool{"exclusive": true, "shared": false} {
		w := load(t, "testdata/connectx6dx-switchdev.txtar")
		w.Kernel.RDMAMode = mode
		if got, err := NewLive(node(t, w), slog.New(slog.DiscardHandler)).Exclusive(); err != nil || got != want {
			t.Errorf("%s: %t, %v", mode, got, err)
		}
	}
}
