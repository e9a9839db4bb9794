package cni

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// remote is the Plugger of a host whose ports are on a DPU: it knows what pods'
// annotations say, also those of other authors.
type remote struct {
	plug.Plugger
	ports []plug.Plugged
}

func (r *remote) Plugged(pods ...contract.Owner) (list []plug.Plugged, err error) {
	for _, p := range r.ports {
		if len(pods) == 0 || slices.Contains(pods, p.Pod) {
			list = append(list, p)
		}
	}
	return list, nil
}

func (r *remote) Unplug(_ context.Context, p plug.Plugged) error {
	r.ports = slices.DeleteFunc(r.ports, func(q plug.Plugged) bool { return q == p })
	return nil
}

// TestSweep_OfDetailsWithoutClaim: details for a DPU that no ADD of this node has
// written hold a function that may be another pod's, and go.
func TestSweep_OfDetailsWithoutClaim(t *testing.T) {
	claim := func(sandbox string) func(*nic) {
		return func(n *nic) {
			_, err := n.led.Take([]string{vf0}, ledger.Claim{
				Pod: types.NamespacedName{Namespace: web.Namespace, Name: web.Name}, UID: webUID, Sandbox: sandbox, Interface: "eth0",
				NetNS: "/ns/a", Inode: n.inode("/ns/a"),
			})
			must(n.t, err)
		}
	}
	for name, tt := range map[string]struct {
		given func(*nic)
		link  string // of the port; "": the switch is on another machine
		left  int
	}{
		"no claim":                       {given: func(*nic) {}},
		"a claim of another sandbox":     {given: claim(sandboxB)},
		"a claim":                        {given: claim(sandboxA), left: 1},
		"an ADD of the pod is under way": {given: func(n *nic) { n.srv.commands.begin(n.t.Context(), addWeb(sandboxB, "/ns/b")) }, left: 1},
		"a damaged ledger": {given: func(n *nic) {
			must(n.t, os.WriteFile(filepath.Join(n.dir, vf1+".json"), []byte("x"), 0o600))
			n.start()
		}, left: 1},
		"a representor of this machine": {given: func(*nic) {}, link: "rep0", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t)
			tt.given(n)
			ports := &remote{ports: []plug.Plugged{{Pod: web, UID: webUID, Sandbox: sandboxA, Link: tt.link, Representor: true}}}
			n.srv.deps.Plugger = ports
			n.srv.Changed(web)
			if asked := len(n.srv.dirty) == 1; asked != (tt.left == 0) {
				t.Errorf("a sweep is due: %t", asked)
			}
			must(t, n.srv.Sweep(t.Context()))
			if len(ports.ports) != tt.left {
				t.Errorf("details %v are left, want %d", ports.ports, tt.left)
			}
		})
	}
}

func (n *nic) inode(path string) uint64 {
	n.t.Helper()
	inode, err := n.net.Inode(path)
	must(n.t, err)
	return inode
}
