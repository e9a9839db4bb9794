//go:build e2e

package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// Row is a line of a table over the shared world: states that follow each other, in each of which clients find
// something.
type Row struct {
	Name   string
	States []State
	// Strict is for a row whose failure is never taken for a flake, as Strict is for a test.
	Strict bool
	// Repeats is for a row whose clients ask again when an answer is lost after all was right: while nodes follow a change
	// one after another, what answers may pause. What must not answer may not, all the same.
	Repeats bool
}

// State is one of a row.
type State struct {
	// Enter makes the state; nil when it is there already.
	Enter func(t *testing.T)
	// Finds says what clients find then.
	Finds func() []Finding
}

// Finding is what a client finds.
type Finding struct {
	From  Client
	Spots []Spot
}

// Gone is a last state of a row, in which no spot of its earlier states answers any more.
func (r *Row) Gone(enter func(t *testing.T)) {
	var before []Finding
	for i := range r.States {
		finds := r.States[i].Finds
		r.States[i].Finds = func() []Finding {
			found := finds()
			before = append(before, found...)
			return found
		}
	}
	r.States = append(r.States, State{Enter: enter, Finds: func() []Finding {
		var silent []Finding
		for _, f := range before {
			still := Finding{From: f.From}
			for _, s := range f.Spots {
				still.Spots = append(still.Spots, Spot{Target: s.Target})
			}
			silent = append(silent, still)
		}
		return silent
	}})
}

// question is one of a row at a client.
type question struct {
	row     string
	spot    Spot
	repeats bool
}

// questionsAt are those of no row.
func questionsAt(spots []Spot) (all []question) {
	for _, spot := range spots {
		all = append(all, question{spot: spot})
	}
	return all
}

// asker is a client with the questions of all rows.
type asker struct {
	Client
	questions []question
}

// Check has rows enter their first states, all clients ask for all of them at once until all is as the rows say, and so
// on with the further states. A row that is wrong enters no further state. Each row is a subtest.
func Check(t *testing.T, rows ...*Row) {
	t.Helper()
	wrong := map[string][]string{}
	for i := 0; ; i++ {
		var entered []*Row
		for _, row := range rows {
			if i < len(row.States) && len(wrong[row.Name]) == 0 {
				entered = append(entered, row)
			}
		}
		if len(entered) == 0 {
			break
		}
		begin := time.Now()
		for _, row := range entered {
			if enter := row.States[i].Enter; enter != nil {
				enter(t)
			}
		}
		for row, texts := range mismatches(askers(entered, i)) {
			wrong[row] = append(wrong[row], fmt.Sprintf("in state %d:\n%s", i+1, strings.Join(texts, "\n")))
		}
		t.Logf("state %d of %d rows: %s", i+1, len(entered), time.Since(begin).Round(time.Millisecond))
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			if row.Strict {
				tier.Strict(t)
			}
			for _, text := range wrong[row.Name] {
				t.Error(text)
			}
		})
	}
}

// askers are the clients of a state of rows, each with its questions.
func askers(rows []*Row, state int) []*asker {
	var all []*asker
	for _, row := range rows {
		for _, found := range row.States[state].Finds() {
			i := slices.IndexFunc(all, func(a *asker) bool { return a.Name == found.From.Name })
			if i < 0 {
				i, all = len(all), append(all, &asker{Client: found.From})
			}
			for _, spot := range found.Spots {
				all[i].questions = append(all[i].questions, question{row.Name, spot, row.Repeats})
			}
		}
	}
	return all
}

// mismatches has all clients ask at once until all is right, and then once more: each server at the spots of several,
// and no loss. It gives what is wrong by row.
func mismatches(clients []*asker) map[string][]string {
	asked := map[string]*asker{}
	for _, client := range clients {
		asked[client.Name] = client
	}
	return together(asked, func(_ string, client *asker) map[string][]string { return client.mismatches() })
}

// together looks at all entries of a map at once, and joins what is wrong by row.
func together[K comparable, V any](all map[K]V, look func(K, V) map[string][]string) map[string][]string {
	wrong := map[string][]string{}
	var lock sync.Mutex
	var looks sync.WaitGroup
	for key, value := range all {
		looks.Go(func() {
			found := look(key, value)
			lock.Lock()
			defer lock.Unlock()
			for row, texts := range found {
				wrong[row] = append(wrong[row], texts...)
			}
		})
	}
	looks.Wait()
	return wrong
}

// mismatches are those of one client.
func (a *asker) mismatches() map[string][]string {
	wrong := map[string][]string{}
	deadline := time.Now().Add(ServiceWithin)
	for pending := a.questions; len(pending) > 0; {
		found := a.askEach(1, true, pending)
		if len(found) == 0 {
			found = a.askThoroughly(pending)
			pending = slices.DeleteFunc(pending, func(q question) bool {
				return len(found[q.row]) == 0 || !q.repeats || strings.Contains(strings.Join(found[q.row], ""), wrongAnswer)
			})
			for row, texts := range found {
				if !slices.ContainsFunc(pending, func(q question) bool { return q.row == row }) {
					wrong[row] = texts
				}
			}
		}
		if time.Now().After(deadline) {
			maps.Copy(wrong, found)
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return wrong
}

// oftenEnough: of three servers one is missing by chance once in four million.
const oftenEnough = 40

// askThoroughly wants each server at the spots of several, and no loss.
func (a *asker) askThoroughly(questions []question) map[string][]string {
	groups := map[int][]question{} // by how many servers, as far as it matters
	for _, q := range questions {
		n := min(len(q.spot.Servers), 2)
		groups[n] = append(groups[n], q)
	}
	return together(groups, func(n int, questions []question) map[string][]string {
		return a.askEach([]int{2, 2, oftenEnough}[n], n == 0, questions)
	})
}

// askEach asks questions so many times each, and gives what is wrong by row. With some, it is as for Spot.Wrong and the
// client waits a second, so that the caller can ask again; without, the client waits patiently.
func (a *asker) askEach(times int, some bool, questions []question) map[string][]string {
	wrong := map[string][]string{}
	var targets []string
	for _, q := range questions {
		targets = append(targets, q.spot.Target)
	}
	slices.Sort(targets)
	got, err := Count(a.Client, times, secondsFor(some), slices.Compact(targets))
	for _, q := range questions {
		text := q.spot.Wrong(got[q.spot.Target], times, some)
		if err != nil {
			text = err.Error()
		}
		if text != "" {
			wrong[q.row] = append(wrong[q.row], a.Name+" finds "+text)
		}
	}
	return wrong
}
