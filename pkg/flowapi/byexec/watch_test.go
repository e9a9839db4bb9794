package byexec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// TestWatch_EndsWithALaterDump: what is read last was dumped after the end was asked for, on each node that answers. A node
// that never answers is missing, and does not hold the end up.
func TestWatch_EndsWithALaterDump(t *testing.T) {
	var one sync.Mutex
	asked := map[string]int{}
	w := &Watch{nodes: []string{"a", "b", "c"}, missing: map[string]string{"a": "", "b": "", "c": ""}}
	w.ask = func(_ context.Context, node string) (*flowapi.Flows, error) {
		one.Lock()
		defer one.Unlock()
		asked[node]++
		switch {
		case node == "c":
			return nil, errors.New("no answer")
		case node == "b" && asked[node] == 2: // it has answered before
			return nil, errors.New("late")
		}
		dump := asked[node] / 2 // an agent gives the same dump twice
		return &flowapi.Flows{Taken: time.Unix(int64(dump), 0), Flows: []flowapi.Flow{{ID: node}}}, nil
	}
	last := map[string]time.Time{}
	end := w.Follow(t.Context(), time.Hour, func(node string, taken time.Time, flows []flowapi.Flow) {
		if len(flows) != 1 || flows[0].Node != node {
			t.Errorf("%s: %+v", node, flows)
		}
		last[node] = taken
	})
	before := last["a"]
	end()
	if !last["a"].After(before) || asked["a"] < 3 {
		t.Errorf("asked %v, last %v", asked, last)
	}
	if got := w.Missing(); !slices.Equal(got, []string{"node/c: no answer"}) {
		t.Errorf("%q", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.Follow(ended, time.Hour, func(string, time.Time, []flowapi.Flow) {})()
}
