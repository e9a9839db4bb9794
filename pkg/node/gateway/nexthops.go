package gateway

import (
	"cmp"

	"github.com/ovn-offload/ovn-offload/pkg/node/nexthop"
)

// uplinkTo is the way by the link that has the addresses.
func uplinkTo(cfg Config, s State, g Gateway, link string) nexthop.Uplink {
	return nexthop.Uplink{
		Name: cmp.Or(g.NIC, g.Bridge), Link: link, Links: []string{g.Bridge, g.NIC}, Addrs: primary(cfg, s, link), Configured: cfg.NextHops,
	}
}

// NextHopProblem says why pods have no way to addresses beyond the networks of the node; nil when they have one.
func (s *Setup) NextHopProblem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hopProblem
}

// noteNextHops keeps the problem, and reports a new one once.
func (s *Setup) noteNextHops(st State, g Gateway) {
	problem := uplinkTo(s.cfg, st, g, hostLink(st, g)).Problem(st.Routes)
	s.mu.Lock()
	before := s.hopProblem
	s.hopProblem = problem
	s.mu.Unlock()
	if problem == nil || before != nil && before.Error() == problem.Error() {
		return
	}
	s.Deps.Logger.Warn("pods have no way to addresses outside", "error", problem)
	if s.deps.NoNextHop != nil {
		s.deps.NoNextHop(problem.Error())
	}
}
