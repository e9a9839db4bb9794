package dpu

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

var (
	formerMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x70}
	podMAC    = "0a:58:0a:f4:01:05" // as in network
)

// calls records what is done to a link, in order.
func (p *pair) calls(link string, fail func(op string) error) func() []string {
	var mu sync.Mutex
	var list []string
	p.kernel.FailWith(func(op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if name == link && (op == "SetFunctionMAC" || op == "SetLink") {
			list = append(list, op)
		}
		if name != link {
			return nil
		}
		return fail(op)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func works(string) error { return nil }

// TestPorts_SetFunctionMACBeforePortIsUp: the host of a DPU cannot set the MAC that
// the driver in a guest will find.
func TestPorts_SetFunctionMACBeforePortIsUp(t *testing.T) {
	p := newPair(t)
	must(t, p.functions.SetFunctionMAC("rep1", formerMAC))
	calls := p.calls("rep1", works)
	p.start()
	p.running("web", 1, "a") // without a netdev: vfio
	if mac := p.kernel.FunctionMAC("rep1").String(); mac != podMAC {
		t.Errorf("the function has %s, want %s", mac, podMAC)
	}
	if diff := cmp.Diff([]string{"SetFunctionMAC", "SetLink"}, calls()[:2]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if mac := p.kernel.FunctionMAC("rep0"); mac != nil {
		t.Errorf("the function of another VF has %s", mac)
	}

	p.kill() // the MAC before the pod is in the database
	p.start()
	p.write("web", vfDetails(1, "b")) // a new sandbox
	p.wantReady("web", "b")
	p.write("web", "")
	p.wantPorts()
	if mac := p.kernel.FunctionMAC("rep1").String(); mac != formerMAC.String() {
		t.Errorf("without its pod the function has %s, want %s", mac, formerMAC)
	}
}

// TestPorts_FunctionMACRefused: a netdev takes the MAC itself, and a guest does not.
func TestPorts_FunctionMACRefused(t *testing.T) {
	p := newPair(t)
	p.calls("rep1", func(op string) error {
		if op == "SetFunctionMAC" {
			return unix.EOPNOTSUPP
		}
		return nil
	})
	p.start()
	p.addPod("guest")
	p.write("guest", vfDetails(1, "a"))
	p.wantError("guest", "operation not supported")
	p.write("guest", "")
	p.wantPorts()

	p.addPod("web")
	p.write("web", `{"default":{"pfId":"0","vfId":"1","sandboxId":"b","vfNetdevName":"ens1f0v1"}}`)
	p.wantReady("web", "b")
	p.write("web", "")
	p.wantPorts()
}

// TestPorts_FunctionMACAfterReset: a NIC that comes back knows no addresses.
func TestPorts_FunctionMACAfterReset(t *testing.T) {
	p := newPair(t)
	p.start()
	p.running("web", 1, "a")
	must(t, p.links.DeleteLink("rep1"))
	must(t, p.add("rep1"))
	p.devices("rep0 c1pf0vf0", "rep1 c1pf0vf1")
	p.until("the function has its MAC again", func() bool { return p.kernel.FunctionMAC("rep1").String() == podMAC })
}

// resetting replaces a representor just before the next call that sets it up.
type resetting struct {
	links
	reset func()
}

func (r *resetting) SetLink(name string, s netdev.Settings) error {
	if name == "rep1" && s.State == netdev.Up {
		r.reset()
	}
	return r.links.SetLink(name, s)
}

// TestPorts_FunctionMACAfterResetWithinPlug: the representor that is set up need not be the
// one whose function was given the MAC.
func TestPorts_FunctionMACAfterResetWithinPlug(t *testing.T) {
	for name, begin := range map[string]func(*pair, func()){
		"of a new port": func(p *pair, next func()) { next(); p.start(); p.running("web", 1, "a") },
		"of a port that works": func(p *pair, next func()) {
			p.start()
			p.running("web", 1, "a")
			next()
			p.current().Mark()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			var pending atomic.Bool
			done := make(chan struct{})
			kernel := p.links
			p.links = &resetting{kernel, func() {
				if pending.CompareAndSwap(true, false) {
					must(t, kernel.DeleteLink("rep1"))
					must(t, p.add("rep1"))
					close(done)
				}
			}}
			begin(p, func() { pending.Store(true) })
			<-done
			p.until("the function has its MAC", func() bool { return p.kernel.FunctionMAC("rep1").String() == podMAC })
		})
	}
}
