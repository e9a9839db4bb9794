package offload

import (
	"maps"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

// Obstacle is one of the reasons for which a flow is not in hardware.
type Obstacle struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Advisor finds all that keeps flows out of hardware.
type Advisor struct{ classifier *classifier }

// NewAdvisor makes one for the ports and settings of a node.
func NewAdvisor(now State) *Advisor { return &Advisor{newClassifier(now.Ports, now.Settings)} }

// maxObstacles is far more than a flow has.
const maxObstacles = 16

// Obstacles classifies the flow again without each obstacle that was found, so that the last one is followed by hardware: as far
// as is known, the NIC takes a flow that has none of them. The driver may refuse it all the same. It is empty for flows in
// hardware, and for those that nothing is known against.
func (a *Advisor) Obstacles(f dpflow.Flow) []Obstacle {
	if place(&f) == Hardware {
		return nil
	}
	c := *a.classifier
	c.ports = maps.Clone(c.ports)
	f.Actions, f.Match = slices.Clone(f.Actions), slices.Clone(f.Match)
	end := End{To: distinct(f.Outputs()), Place: OVS}
	var out []Obstacle
	for range maxObstacles {
		reason, detail := c.why(&f, end)
		if !c.remove(&f, &end, reason, detail) {
			return out
		}
		if o := (Obstacle{reason, detail}); !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// remove takes one obstacle away; not ok if it is none that can be.
func (c *classifier) remove(f *dpflow.Flow, end *End, reason Reason, detail string) bool {
	switch reason {
	case ReasonOff:
		c.settings.HWOffload, c.settings.RestartDue = true, false
	case ReasonSlowPath:
		f.Actions = without(f.Actions, func(one *dpflow.Flow) bool { return slowPath(one) == detail })
	case ReasonAction:
		if detail == recirculation {
			c.settings.NoRecirculation = false
			return true
		}
		f.Actions = without(f.Actions, func(one *dpflow.Flow) bool { return badAction(one) == detail })
	case ReasonMatch:
		f.Match = slices.DeleteFunc(f.Match, func(m dpflow.Term) bool { return badMatch(&dpflow.Flow{Match: []dpflow.Term{m}}) == detail })
	case ReasonPort:
		delete(c.ports, f.InPort)
	case ReasonOutput:
		end.To = slices.DeleteFunc(slices.Clone(end.To), func(port string) bool { return c.portLacks(port) == detail })
	case ReasonNew:
		f.CT = dpflow.CTState{}
	default:
		return false
	}
	return true
}

// without leaves out the actions that are an obstacle, with those in them.
func without(actions []dpflow.Term, obstacle func(one *dpflow.Flow) bool) []dpflow.Term {
	return slices.DeleteFunc(actions, func(t dpflow.Term) bool { return obstacle(&dpflow.Flow{Actions: []dpflow.Term{t}}) })
}
