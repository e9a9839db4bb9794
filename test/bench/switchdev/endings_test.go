//go:build bench

package switchdev

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// atOnce is when nothing comes any more by a connection that has ended. Most of
// it is the slow machine's; a rule that is left in the NIC works for ever. After
// it the tests look on.
const atOnce, after = 15 * time.Second, 5 * time.Second

// endpointLeaves: connections in hardware end with their endpoint, while its pod
// lives on. Those to another service go on.
func (w *world) endpointLeaves(t *testing.T) {
	near, far := listen(t, "b"), listen(t, "c")
	for network := range near {
		speak(t, "a", network, nearService)
		speak(t, "a", network, farService)
	}
	w.inHardware(t, near, far)
	cut := time.Now()
	w.endpoint("near", nearService, "")
	silent(t, cut, near, far)
	w.endpoint("near", nearService, w.pods["b"].v4)
	back := time.Now()
	eventually(t, "with its endpoint UDP is back", patience, func() bool { n, _ := near["udp"].since(back); return n > 0 })
}

// inHardware waits until all connections are heard and next to nothing of them
// comes to software.
func (w *world) inHardware(t *testing.T, taps ...map[string]*tap) {
	t.Helper()
	inHardware(t, func() (n uint64) {
		for _, e := range w.pods {
			n += counter(t, e.node.name, e.rep, "rx_packets")
		}
		return n
	}, taps...)
}

// inHardware has the packets that representors have seen counted by seen.
func inHardware(t *testing.T, seen func() uint64, taps ...map[string]*tap) {
	t.Helper()
	eventually(t, "all in hardware", patience, func() bool {
		start, before, heard := time.Now(), seen(), 0
		time.Sleep(time.Second)
		for _, all := range taps {
			for _, tap := range all {
				n, _ := tap.since(start)
				if n < 5 {
					return false
				}
				heard += n
			}
		}
		software := seen() - before
		t.Logf("%d packets heard in a second, %d came to software", heard, software)
		return software < uint64(heard)/10
	})
}

// ended holds what was cut to silence.
func ended(t *testing.T, cut time.Time, taps map[string]*tap) {
	t.Helper()
	time.Sleep(time.Until(cut.Add(atOnce + after)))
	for _, what := range slices.Sorted(maps.Keys(taps)) {
		n, last := taps[what].since(cut)
		t.Logf("%s: %d packets after the cut, the last after %s", what, n, last.Sub(cut).Round(time.Millisecond))
		if late, _ := taps[what].since(cut.Add(atOnce)); late > 0 {
			t.Errorf("%s: %d packets later than %s after the cut", what, late, atOnce)
		}
	}
}

// silent waits until nothing comes any more while all others are heard often.
func silent(t *testing.T, cut time.Time, taps, others map[string]*tap) {
	t.Helper()
	const often = 40
	mark := cut
	eventually(t, "silence beside the others", 2*patience, func() bool {
		for _, tap := range taps {
			if n, last := tap.since(mark); n > 0 {
				mark = last
				return false
			}
		}
		for _, tap := range others {
			if n, _ := tap.since(mark); n < often {
				return false
			}
		}
		return true
	})
	for _, what := range slices.Sorted(maps.Keys(taps)) {
		n, last := taps[what].since(cut)
		t.Logf("%s: %d packets after the cut, the last after %s", what, n, last.Sub(cut).Round(time.Millisecond))
	}
}

func lives(t *testing.T, cut time.Time, taps map[string]*tap) {
	t.Helper()
	for what, tap := range taps {
		if n, _ := tap.since(cut.Add(atOnce)); n < int(after/beat)/2 {
			t.Errorf("%s, which nobody has cut: %d packets", what, n)
		}
	}
}
