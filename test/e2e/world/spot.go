//go:build e2e

package world

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Counted has how often each answer came from a target. Without a server, Seen says what became of the attempt.
type Counted map[Answer]int

// Count asks all targets at once, each so many times, and waits some seconds for each answer.
func Count(c Client, times, seconds int, targets []string) (map[string]Counted, error) {
	out, err := c.run(append([]string{"probe", "count", fmt.Sprint(times), fmt.Sprint(seconds)}, targets...)...)
	all := map[string]Counted{}
	for line := range strings.Lines(out) {
		target, rest, _ := strings.Cut(line, " ")
		times, said, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, err := strconv.Atoi(times)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		got := Answer{Seen: said}
		if !strings.HasPrefix(said, "lost ") {
			if got, err = ReadAnswer(said, nil); err != nil {
				return nil, err
			}
		}
		if all[target] == nil {
			all[target] = Counted{}
		}
		all[target][got] += n
	}
	return all, err
}

// Spot is a target (tcp|udp|sctp:ADDRESS:PORT), and what a client is to find there.
type Spot struct {
	Target string
	// Servers are those that answer; none for silence.
	Servers []string
	// Seen is the client's address that they see; the zero one: any.
	Seen netip.Addr
	// Refuses is for a target without servers that refuses at once, and not by silence.
	Refuses bool
}

// SpotsAt are those at some addresses with a port, for TCP and UDP. Servers see that address of a client that has the
// family of their own.
func SpotsAt(addrs []netip.Addr, port uint16, servers []string, seen []netip.Addr) []Spot {
	var out []Spot
	for _, addr := range addrs {
		for _, network := range []string{"tcp", "udp"} {
			out = append(out, Spot{Target: network + ":" + netip.AddrPortFrom(addr, port).String(), Servers: servers,
				Seen: OfFamily(seen, addr)})
		}
	}
	return out
}

// wrongAnswer is in what Wrong says of an answer that is not as it is to be, and not in what it says of a loss.
const wrongAnswer = "who see"

// Wrong says what is not as it is to be of some answers: each of so many attempts has one. With some, attempts may have
// failed and servers be missing, but for one.
func (s Spot) Wrong(got Counted, times int, some bool) string {
	servers := map[string]bool{}
	n := 0
	for answer, times := range got {
		if answer.Server == "" {
			if s.Refuses && !strings.Contains(answer.Seen, "refused") {
				return fmt.Sprintf("%s: %v; want a refusal", s.Target, got)
			}
			continue
		}
		servers[answer.Server] = true
		n += times
		if s.Seen.IsValid() && answer.Seen != s.Seen.String() || !slices.Contains(s.Servers, answer.Server) {
			seen := "any client"
			if s.Seen.IsValid() {
				seen = s.Seen.String()
			}
			return fmt.Sprintf("%s: %v; want %v, %s %s", s.Target, got, s.Servers, wrongAnswer, seen)
		}
	}
	if len(s.Servers) > 0 && n < times || !some && len(servers) < len(s.Servers) {
		return fmt.Sprintf("%s, asked %d times: %v; want %v", s.Target, times, got, s.Servers)
	}
	return ""
}

// waitSeconds is how long a client waits that is to have an answer: TCP repeats a first packet after one and three.
const waitSeconds = 4

// secondsFor is how long a client waits for an answer.
func secondsFor(some bool) int {
	if some {
		return 1
	}
	return waitSeconds
}

// Mismatches asks all spots so many times each, and says what is not as it is to be. With some, it is as for Wrong and
// the client waits a second, so that the caller can ask again; without, the client waits patiently.
func Mismatches(c Client, times int, some bool, spots []Spot) string {
	return strings.Join((&asker{Client: c}).askEach(times, some, questionsAt(spots))[""], "\n")
}

// Finds waits until all spots are as they are to be, and then wants each server at those of several, and no loss.
func (c Client) Finds(t *testing.T, spots []Spot) {
	t.Helper()
	client := asker{c, questionsAt(spots)}
	if wrong := client.mismatches()[""]; len(wrong) > 0 {
		t.Fatal(strings.Join(wrong, "\n"))
	}
}

// FindsBeside asks so many times without one loss, while a witness asks as often. Where the witness has a loss the
// machine may have lost the others, and both ask again. Answers of other servers, and refusals, are not the machine's.
func (c Client) FindsBeside(t *testing.T, times int, spots, witness []Spot) {
	t.Helper()
	for range 5 {
		var beside string
		var both sync.WaitGroup
		both.Go(func() { beside = Mismatches(c, times, false, witness) })
		wrong := Mismatches(c, times, false, spots)
		both.Wait()
		if wrong == "" {
			return
		}
		if beside == "" || strings.Contains(wrong, wrongAnswer) || strings.Contains(wrong, "refused") {
			t.Error(wrong)
			return
		}
		t.Logf("once more, because the witness has a loss:\n%s", beside)
	}
	t.Errorf("%s: the machine is too busy to tell", c.Name)
}

// KeepAsking begins connections until stop, or the end of the test.
func KeepAsking(t *testing.T, c Client, spots []Spot) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			Mismatches(c, 5, true, spots)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}
