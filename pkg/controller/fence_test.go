package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
)

// TestFence_WhoWritesIsDecidedByTheLease when the database says that another writes: a
// leader whose lease another has stops, and one that has it claims the database
// again. As long as no other leader has claimed it, the late write of a leader is no danger.
func TestFence_WhoWritesIsDecidedByTheLease(t *testing.T) {
	const claim = `{"op":"mutate","table":"NB_Global","where":[],"mutations":[["external_ids","delete",["set",["` + leaderKey + `"]]],` +
		`["external_ids","insert",["map",[["` + leaderKey + `","other"]]]]]}`
	for name, c := range map[string]struct{ leaseIsAnothers, claimed, writes bool }{
		"of another, claimed":     {true, true, false},
		"of another, not claimed": {true, false, true},
		"ours, claimed":           {false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testNode("n1"), testPod("a", "n1"))
			w.eventually("a port", func() bool { return slices.Equal(w.ports(), []string{"d_a"}) })
			leases, other := w.client.CoordinationV1().Leases("ovn-kubernetes"), "other"
			lease, err := leases.Get(t.Context(), "ovn-kubernetes-master", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ours := *lease.Spec.HolderIdentity
			if c.leaseIsAnothers {
				lease.Spec.HolderIdentity = &other
				if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if c.claimed {
				w.server.Transact(claim)
			}
			if err := createPod(t, w, "b"); err != nil {
				t.Fatal(err)
			}
			if c.writes {
				w.eventually("a second port", func() bool { return slices.Equal(w.ports(), []string{"d_a", "d_b"}) })
			} else {
				select {
				case err := <-w.ended:
					if !errors.Is(err, leader.ErrLost) {
						t.Errorf("the former leader ends with %v", err)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("the former leader goes on")
				}
				if got := w.ports(); !slices.Equal(got, []string{"d_a"}) {
					t.Errorf("ports %v", got)
				}
			}
			want := "other"
			if !c.leaseIsAnothers || !c.claimed {
				want = ours
			}
			if got := w.server.Dump("NB_Global", "external_ids"); !strings.Contains(got, want) {
				t.Errorf("the database is claimed by %s, want %s", got, want)
			}
		})
	}
}
