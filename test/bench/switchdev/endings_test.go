//go:build bench

package switchdev

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// policyLands: what is in hardware ends with a policy that forbids one pod
// everything. That of others goes on.
func (p *product) policyLands(t *testing.T) {
	b, c := p.pods["b"], p.pods["c"]
	near, far := listen(t, "b"), listen(t, "c")
	for network := range near {
		speak(t, "a", network, b.v4)
		speak(t, "a", network, c.v4)
	}
	inHardware(t, p.seen, near, far)
	cut := time.Now()
	p.policy("deny", "b")
	silent(t, cut, near, far)
	p.withdraw("deny")
	back := time.Now()
	eventually(t, "without the policy UDP is back", patience, func() bool { n, _ := near["udp"].since(back); return n > 0 })
}

// endpointLeaves: connections in hardware end with their endpoint, while its pod
// lives on. Those to another service go on.
func (p *product) endpointLeaves(t *testing.T) {
	near, far := listen(t, "b"), listen(t, "c")
	for network := range near {
		speak(t, "a", network, nearService()[0])
		speak(t, "a", network, farService()[0])
	}
	inHardware(t, p.seen, near, far)
	cut := time.Now()
	p.endpoint("near", nil)
	silent(t, cut, near, far)
	p.endpoint("near", p.pods["b"])
	back := time.Now()
	eventually(t, "with its endpoint UDP is back", patience, func() bool { n, _ := near["udp"].since(back); return n > 0 })
}

// seen counts packets that pods' representors have seen.
func (p *product) seen() (n uint64) {
	p.t.Helper()
	for _, e := range p.pods {
		n += counter(p.t, e.node.name, e.rep, "rx_packets")
	}
	return n
}

// inHardware has the packets that representors have seen counted by seen.
func inHardware(t *testing.T, seen func() uint64, taps ...map[string]*tap) {
	t.Helper()
	eventually(t, "all in hardware", patience, func() bool {
		start, before, received := time.Now(), seen(), 0
		time.Sleep(time.Second)
		for _, all := range taps {
			for _, tap := range all {
				n, _ := tap.since(start)
				if n < 5 {
					return false
				}
				received += n
			}
		}
		software := seen() - before
		t.Logf("%d packets received in a second, %d came to software", received, software)
		return software < uint64(received)/10
	})
}

// silent waits until no packets of one connection arrive any more, while packets of all others arrive often.
func silent(t *testing.T, cut time.Time, taps, others map[string]*tap) {
	t.Helper()
	const often = 40
	mark := cut
	eventually(t, "silence beside the others", patience, func() bool {
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
