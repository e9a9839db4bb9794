package nearby

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestKept_ReadsAListOnceInHalfAMinute. What is added to an answer is not in the next one, and other lists are read.
func TestKept_ReadsAListOnceInHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		read := func(context.Context, map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error) {
			asked++
			s := snapshot.New(time.Now(), "ovn-kubernetes")
			s.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "web-0"}})
			s.Missing[snapshot.Nodes] = "forbidden"
			return s, nil
		}
		var kept Kept
		lists := kept.Or(read)
		all := map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: {{}}, snapshot.Nodes: {{}}}
		for range 15 {
			s, err := lists(t.Context(), all)
			if err != nil || len(s.Shared(snapshot.Pods)) != 1 || s.Missing[snapshot.Nodes] == "" || time.Since(s.Taken) > 0 {
				t.Fatalf("%+v, %v", s, err)
			}
			other := snapshot.New(time.Now(), "ovn-kubernetes")
			other.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"namespace": "bank", "name": "vault-0"}})
			snapshot.Merge(s, other)
			time.Sleep(2 * time.Second)
		}
		if asked != 1 {
			t.Errorf("%d lists within half a minute", asked)
		}
		if _, err := lists(t.Context(), all); err != nil || asked != 2 {
			t.Errorf("after half a minute: %d lists, %v", asked, err)
		}
		if _, err := lists(t.Context(), map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: {{Namespace: "shop"}}}); err != nil || asked != 3 {
			t.Errorf("other lists: %d, %v", asked, err)
		}
		if _, err := (*Kept)(nil).Or(read)(t.Context(), all); err != nil || asked != 4 {
			t.Errorf("a command that looks once: %d, %v", asked, err)
		}
	})
}

// TestKept_KeepsNoListThatWasInterrupted.
func TestKept_KeepsNoListThatWasInterrupted(t *testing.T) {
	asked := 0
	var kept Kept
	lists := kept.Or(func(context.Context, map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error) {
		asked++
		return snapshot.New(time.Now(), "ovn-kubernetes"), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{ctx, t.Context(), t.Context()} {
		if _, err := lists(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("%d lists, want one that was interrupted and one that is kept", asked)
	}
}
