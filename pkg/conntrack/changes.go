package conntrack

import (
	"maps"
	"strings"
)

// changes are what flows that came, went or became others have been about: only
// connections that they concern are looked at.
type changes struct {
	// frontends are the addresses that are balanced otherwise.
	frontends map[frontend]bool
	// ruled are the logical ports that have other rules; the zero key is there
	// when some rule is not of one port.
	ruled map[key]bool
}

func noChanges() changes { return changes{frontends: map[frontend]bool{}, ruled: map[key]bool{}} }

// note takes a line of the monitor of flows and says whether it is a load
// balancer's or a policy's: a pod comes and goes without one, and then nothing is
// looked at. When the switch has come back, all its flows are new.
func (k *Keeper) note(flow string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	match, actions, _ := strings.Cut(flow, " actions=")
	if strings.Contains(actions, "conjunction(") || strings.Contains(actions, verdict) {
		k.noted.ruled[ruleOf(match)] = true
		return true
	}
	// Without endpoints, the flow that refuses new connections takes the place of
	// the one with their group. Most flows of services are neither.
	if !strings.Contains(match, "ct_state=+new") {
		return false
	}
	f, ok := frontendOf(match)
	if ok {
		k.noted.frontends[f] = true
	}
	return ok
}

func (k *Keeper) take() changes {
	k.mu.Lock()
	defer k.mu.Unlock()
	what := k.noted
	k.noted = noChanges()
	return what
}

// again notes what could not be looked at.
func (k *Keeper) again(what changes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(k.noted.frontends, what.frontends)
	maps.Copy(k.noted.ruled, what.ruled)
}

func (w changes) concern(c connection) bool {
	return w.balance(c) || c.protocol == "udp" && len(w.ruled) > 0
}

// balance says that the address by which a connection came is balanced otherwise.
func (w changes) balance(c connection) bool {
	return (c.balanced() || c.missed()) && w.frontends[c.frontend()]
}
