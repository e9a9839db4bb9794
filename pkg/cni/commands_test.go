package cni

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// start runs a command beside the test.
func (n *node) start(r *Request) <-chan error {
	done := make(chan error, 1)
	go func() { _, err := n.do(r); done <- err }()
	return done
}

// stuck starts an ADD that waits for flows.
func (n *node) stuck(r *Request) <-chan error {
	n.t.Helper()
	n.db.mu.Lock()
	n.db.flows = false
	n.db.mu.Unlock()
	done := n.start(r)
	until(n.t, "the port is there", func() bool { a, ok := find(n.db, r.Pod); return ok && a.Sandbox == r.Sandbox })
	return done
}

func TestAdd_ConcurrentRepeatSucceeds(t *testing.T) {
	n := newNode(t)
	first := n.stuck(addWeb(sandboxA, "/ns/a"))
	second := n.start(addWeb(sandboxA, "/ns/a"))
	n.db.edit(web, func(i *vswitch.Interface) { i.ExternalIDs[installedKey] = "true" })
	must(t, <-first)
	// The fake forgets what ovn-controller wrote when rows are committed again.
	until(t, "the second ADD is under way", func() bool {
		n.db.edit(web, func(i *vswitch.Interface) { i.ExternalIDs[installedKey] = "true" })
		select {
		case err := <-second:
			must(t, err)
			return true
		default:
			return false
		}
	})
	n.wantLinks(linkA)
}

func TestDel_CancelsWaitingADD(t *testing.T) {
	n := newNode(t)
	done := n.stuck(addWeb(sandboxA, "/ns/a"))
	must(t, <-n.start(delWeb(sandboxA, "/ns/a")))
	if err := <-done; codeOf(err) != CodeCancelled {
		t.Errorf("ADD: %v, want code %d", err, CodeCancelled)
	}
	n.wantNothing()
}

func TestAdd_CancelsWaitingADDOfOldSandbox(t *testing.T) {
	n := newNode(t)
	old := n.stuck(addWeb(sandboxA, "/ns/a"))
	next := n.stuck(addWeb(sandboxB, "/ns/b"))
	if err := <-old; codeOf(err) != CodeCancelled {
		t.Errorf("ADD of the old sandbox: %v, want code %d", err, CodeCancelled)
	}
	n.db.edit(web, func(i *vswitch.Interface) { i.ExternalIDs[installedKey] = "true" })
	must(t, <-next)
	n.wantLinks(linkB)
}

// TestCommands_InAnyOrderStayConsistent runs commands of a few pods in every order at once.
func TestCommands_InAnyOrderStayConsistent(t *testing.T) {
	n := newNode(t)
	var wg sync.WaitGroup
	for i := range 4 {
		pod := contract.PodOwner("default", fmt.Sprintf("p%d", i))
		uid := fmt.Sprint("uid", i)
		n.setPod(pod, uid, webNetwork)
		for s := range 3 {
			sandbox := fmt.Sprintf("%c%c%s", 'c'+i, 'a'+s, sandboxA)
			path := "/ns/" + sandbox
			n.net.AddNS(path)
			n.net.AddLink(path, netdev.Link{Name: "lo"})
			for _, command := range []string{"ADD", "ADD", "DEL", "ADD", "CHECK"} {
				wg.Go(func() {
					_, _ = n.do(&Request{Command: command, Sandbox: sandbox, Netns: path, IfName: "eth0", Pod: pod, UID: uid,
						Conf: Conf{CNIVersion: "1.1.0", Name: "ovn-kubernetes"}})
				})
			}
		}
		wg.Go(func() { must(t, n.srv.Sweep(t.Context())) })
	}
	wg.Wait()
	links, err := n.host.Links()
	must(t, err)
	for _, l := range links {
		if p, ok := ours(l); ok {
			if _, ok, err := plug.BySandbox(n.ovs, p.Sandbox); !ok {
				t.Errorf("link %s has no port: %v", l.Name, err)
			}
		}
	}
	ports, err := n.ovs.Plugged()
	must(t, err)
	for _, p := range ports {
		if _, err := n.host.Link(p.Link); err != nil {
			t.Errorf("port of %s: %v", p.Pod, err)
		}
	}
	if len(n.srv.commands.locks) != 0 || len(n.srv.commands.adds) != 0 {
		t.Errorf("commands are left: %v", n.srv.commands)
	}
}

func TestDel_SucceedsWithoutPodAndNamespace(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.putPod(web, nil)
	n.net.RemoveNS("/ns/a")
	r := delWeb(sandboxA, "")
	r.Pod, r.UID = contract.Owner{}, "" // no CNI_ARGS either
	for range 2 {
		n.mustDo(r)
	}
	if owners := n.db.Owners(); len(owners) != 0 {
		t.Errorf("rows are left of %v", owners)
	}
}

func TestDel_OfAnotherInterfaceKeepsPort(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	r := delWeb(sandboxA, "/ns/a")
	r.IfName = "eth1"
	n.mustDo(r)
	n.wantLinks(linkA)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantNothing()
}

// TestDel_KeepsLinksOfHost: the host's link has the name that the sandbox's would have.
func TestDel_KeepsLinksOfHost(t *testing.T) {
	n := newNode(t)
	n.mustDo(delWeb("eth0", "/ns/a"))
	if _, err := n.host.Link("eth0"); err != nil {
		t.Errorf("the host's own link: %v", err)
	}
}

// TestDel_SucceedsWithoutDatabase, and the sweep finishes what it could not do.
func TestDel_SucceedsWithoutDatabase(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.db.mu.Lock()
	n.db.away = true
	n.db.mu.Unlock()
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantLinks()
	if len(n.srv.dirty) != 1 {
		t.Error("no sweep is due after a DEL without database")
	}
	if err := n.srv.Sweep(t.Context()); err == nil {
		t.Error("Sweep succeeded without database")
	}
	n.db.mu.Lock()
	n.db.away = false
	n.db.mu.Unlock()
	must(t, n.srv.Sweep(t.Context()))
	n.wantNothing()
}

func TestSweep_RemovesStaleAttachmentsOnly(t *testing.T) {
	tests := []struct {
		name   string
		change func(*node)
		stays  bool
	}{
		{"nothing wrong", func(*node) {}, true},
		{"pod gone", func(n *node) { n.putPod(web, nil) }, false},
		{"pod replaced", func(n *node) { n.setPod(web, "new", webNetwork) }, false},
		{"namespace gone", func(n *node) {
			n.net.RemoveNS("/ns/a")
			n.net.AddNS("/ns/a")
			n.net.AddLink("/ns/a", netdev.Link{Name: "lo"})
		}, false},
		{"rows gone", func(n *node) { must(n.t, n.ovs.Unplug(n.t.Context(), n.plugged())) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.mustDo(addWeb(sandboxA, "/ns/a"))
			tt.change(n)
			must(t, n.srv.Sweep(t.Context()))
			if !tt.stays {
				n.wantNothing()
				return
			}
			n.wantLinks(linkA)
			if _, ok := find(n.db, web); !ok {
				t.Error("the port is gone")
			}
		})
	}
}

func TestSweep_KeepsLinksOfRunningADD(t *testing.T) {
	n := newNode(t)
	r := addWeb(sandboxA, "/ns/a")
	_, end := n.srv.commands.begin(t.Context(), r)
	must(t, n.host.AddVeth(netdev.Veth{Name: linkA, Alias: aliasPrefix + sandboxA, Peer: netdev.Peer{Path: "/ns/a", Name: "eth0"}}))
	must(t, n.srv.Sweep(t.Context()))
	n.wantLinks(linkA)
	end()
	must(t, n.srv.Sweep(t.Context()))
	n.wantLinks()
}

func TestGC_RemovesUnlistedAttachmentsOfOwnNetwork(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	gc := &Request{Command: "GC", Conf: Conf{CNIVersion: "1.1.0", Name: "ovn-kubernetes"}}
	gc.Conf.ValidAttachments = []cnitypes.GCAttachment{{ContainerID: sandboxA, IfName: "eth0"}}
	n.mustDo(gc)
	n.wantLinks(linkA)
	gc.Conf.ValidAttachments = nil
	gc.Conf.Name = "another-network"
	n.mustDo(gc)
	n.wantLinks(linkA)
	gc.Conf.Name = "ovn-kubernetes"
	n.mustDo(gc)
	n.wantNothing()
}

func TestCheck_FindsEachDamage(t *testing.T) {
	tests := []struct {
		name   string
		change func(n *node, pod *netdevtest.FakeNS)
		text   string
	}{
		{"interface", func(n *node, pod *netdevtest.FakeNS) { must(n.t, pod.DeleteLink("eth0")) }, linkA},
		{"address", func(n *node, pod *netdevtest.FakeNS) { must(n.t, pod.DeleteAddr("eth0", prefixes("10.244.1.5/24")[0])) }, "lacks address 10.244.1.5/24"},
		{"MAC", func(n *node, pod *netdevtest.FakeNS) {
			must(n.t, pod.SetLink("eth0", netdev.Settings{MAC: []byte{2, 0, 0, 0, 0, 1}}))
		}, "has MAC 02:00:00:00:00:01"},
		{"down", func(n *node, pod *netdevtest.FakeNS) {
			must(n.t, pod.SetLink("eth0", netdev.Settings{State: netdev.Down}))
		}, "eth0 is down"},
		{"port", func(n *node, _ *netdevtest.FakeNS) { must(n.t, n.ovs.Unplug(n.t.Context(), n.plugged())) }, "plug.OVS has no port"},
		{"flows", func(n *node, _ *netdevtest.FakeNS) {
			n.db.edit(web, func(i *vswitch.Interface) { delete(i.ExternalIDs, installedKey) })
		}, "has not set ovn-installed"},
		{"pod replaced", func(n *node, _ *netdevtest.FakeNS) { n.setPod(web, "new", webNetwork) }, "is not the pod's"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.mustDo(addWeb(sandboxA, "/ns/a"))
			pod, err := n.net.Open("/ns/a")
			must(t, err)
			check := addWeb(sandboxA, "/ns/a")
			check.Command = "CHECK"
			n.mustDo(check)
			tt.change(n, pod)
			if _, err := n.do(check); codeOf(err) != CodeCheck || !contains(err, tt.text) {
				t.Errorf("CHECK: %v, want code %d and %q", err, CodeCheck, tt.text)
			}
		})
	}
}

// TestSweepLoop_RetriesAfterFailure lets the first sweep fail.
func TestSweepLoop_RetriesAfterFailure(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.putPod(web, nil)
	failed := make(chan struct{})
	var once sync.Once
	n.net.FailWith(func(op, _ string) error {
		var err error
		if op == "Links" {
			once.Do(func() { err = errors.New("injected"); close(failed) })
		}
		return err
	})
	n.serve()
	select {
	case <-failed:
	case <-time.After(10 * time.Second):
		t.Fatal("no sweep at the start")
	}
	n.srv.Repair()
	until(t, "the port is swept", func() bool { return len(n.db.Owners()) == 0 })
}

// logged are the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestSweepLoop_FailingSweepsAreLoggedOnce, and are made all the same. Another error,
// and the same after a success, are reported.
func TestSweepLoop_FailingSweepsAreLoggedOnce(t *testing.T) {
	n := newNode(t)
	lines := make(logged, 1000)
	n.srv.log = slog.New(slog.NewTextHandler(lines, nil))
	var sweeps atomic.Int32
	sweep := func(failure error) {
		t.Helper()
		n.net.FailWith(func(op, _ string) error {
			if op != "Links" {
				return nil
			}
			sweeps.Add(1)
			return failure
		})
		enough := sweeps.Load() + 4 // the first may be under way, the last be unlogged
		until(t, "four more sweeps", func() bool { n.srv.Repair(); return sweeps.Load() >= enough })
	}
	n.sweeps()
	for _, failure := range []error{errors.New("held open"), errors.New("held by another"), nil, errors.New("held by another")} {
		sweep(failure)
		want := "succeeded again"
		if failure != nil {
			want = failure.Error()
		}
		if line := <-lines; !strings.Contains(line, want) || len(lines) > 0 {
			t.Errorf("%d lines after %q, want one of %q", len(lines)+1, line, want)
		}
	}
}
