package node

import (
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// calm is how long changes that only the annotations show are gathered.
const calm = time.Second

// follow turns the host's events into passes: at once for links that carry the
// node's network, after a while for other addresses, never for pods' links.
func (s *Setup) follow(events <-chan netdev.Event) {
	var later *time.Timer
	for e := range events {
		switch {
		case e.Kind == netdev.Lost || s.matters(e):
			s.Mark()
		case e.Kind == netdev.AddrEvent && later == nil:
			later = time.AfterFunc(calm, s.Mark)
		case e.Kind == netdev.AddrEvent:
			later.Reset(calm)
		}
	}
	if later != nil {
		later.Stop()
	}
}

// matters reports whether an event is about a link of ours. A link that has
// just been made is known by its name only, one that is gone by its index.
func (s *Setup) matters(e netdev.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil { // before the first pass
		return true
	}
	return s.known[e.Index] || e.Kind == netdev.LinkEvent && s.names[e.Link]
}

func (s *Setup) remember(st State, g Gateway) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.names = map[int]bool{}, map[string]bool{}
	for _, name := range []string{g.Bridge, g.NIC, IntegrationBridge, ManagementInterface} {
		s.names[name] = true
		if link, ok := st.Links[name]; ok {
			s.known[link.Index] = true
		}
	}
}
