package cni

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// killed is what a step panics with: nothing after it runs, no undoing either.
type killed struct{}

// kill runs a command and ends the agent before its n-th step. It reports false
// when the command has fewer.
func (n *nic) kill(step int, r *Request) (died bool) {
	steps := 0
	fail := func(string, string) error {
		if steps++; steps == step {
			panic(killed{})
		}
		return nil
	}
	n.net.FailWith(fail)
	n.db.fail = func(op string) error { return fail(op, "") }
	defer func() {
		n.net.FailWith(nil)
		n.db.fail = nil
		switch p := recover().(type) {
		case nil:
		case killed:
			died = true
		default:
			panic(p)
		}
	}()
	_, _ = n.do(r)
	return false
}

// TestDevice_AgentKilledAtAnyStepRecovers ends the agent before each step of ADD and of DEL, starts
// it again, and lets what may come come.
func TestDevice_AgentKilledAtAnyStepRecovers(t *testing.T) {
	after := map[string]func(*nic) (detached bool){
		"DEL": func(n *nic) bool { n.mustDo(delWeb(sandboxA, "/ns/a")); return true },
		"ADD": func(n *nic) bool { n.mustDo(addWeb(sandboxA, "/ns/a")); n.wantIn("/ns/a", sandboxA); return false },
		"new sandbox": func(n *nic) bool {
			n.mustDo(addWeb(sandboxB, "/ns/b"))
			n.wantIn("/ns/b", sandboxB)
			n.mustDo(delWeb(sandboxA, "/ns/a"))
			n.wantIn("/ns/b", sandboxB)
			return false
		},
		"pod gone": func(n *nic) bool { n.putPod(web, nil); must(n.t, n.srv.Sweep(n.t.Context())); return true },
		"namespace gone": func(n *nic) bool {
			n.net.RemoveNS("/ns/a")
			must(n.t, n.srv.Sweep(n.t.Context()))
			return true
		},
	}
	for command, prepare := range map[string]func(*nic) *Request{
		"ADD": func(*nic) *Request { return addWeb(sandboxA, "/ns/a") },
		"DEL": func(n *nic) *Request { n.mustDo(addWeb(sandboxA, "/ns/a")); return delWeb(sandboxA, "/ns/a") },
	} {
		for name, then := range after {
			if command == "DEL" && name == "ADD" {
				continue // a runtime does not add what it has begun to delete
			}
			steps := 0
			for step := 1; ; step++ {
				n := newNIC(t)
				n.net.AddNS("/ns/b")
				n.net.AddLink("/ns/b", netdev.Link{Name: "lo"})
				if !n.kill(step, prepare(n)) {
					break
				}
				steps++
				n.start()
				n.askForAgain()
				if then(n) {
					n.wantDetached()
				}
				if t.Failed() {
					t.Fatalf("%s killed before step %d, then %s", command, step, name)
				}
			}
			if steps < 8 {
				t.Errorf("%s has %d steps only", command, steps)
			}
		}
	}
}

// askForAgain: the new server has its own view of the pods.
func (n *nic) askForAgain() { n.askFor(webUID, vfPool) }
