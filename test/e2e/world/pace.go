//go:build e2e

package world

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// programEvery is the least time between two starts of the same program with the same arguments in a test: a wait that
// runs kubectl or its plugin takes a core.
const programEvery = 2 * time.Second

// starts are the times at which programs start, by test, program and arguments.
var starts struct {
	sync.Mutex
	next map[string]time.Time
}

// Pace waits until a test may start a program once more. The first start waits for nothing.
func Pace(t *testing.T, program string, args ...string) {
	t.Helper()
	key := strings.Join(append([]string{t.Name(), program}, args...), "\x00")
	starts.Lock()
	at := time.Now()
	if next := starts.next[key]; next.After(at) {
		at = next
	}
	if starts.next == nil {
		starts.next = map[string]time.Time{}
	}
	starts.next[key] = at.Add(programEvery)
	starts.Unlock()
	time.Sleep(time.Until(at))
}
