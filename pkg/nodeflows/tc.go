package nodeflows

import (
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// addTC finds the rule of TC of each flow that is not in Open vSwitch alone. The rules of a port are read once.
func (s *Source) addTC(flows []flowapi.Flow) {
	read := map[string]map[string]*flowapi.TCRule{}
	problems := map[string]string{}
	for i := range flows {
		f := &flows[i]
		if f.Place == offload.OVS || f.Why == nil || s.cfg.Rules == nil {
			continue
		}
		port := f.From.Port
		if _, known := read[port]; !known {
			rules, err := s.cfg.Rules(port)
			read[port] = byFlow(port, rules)
			if err != nil {
				problems[port] = err.Error()
			}
		}
		switch rule := read[port][f.ID]; {
		case rule != nil:
			f.Why.TC = rule
		case problems[port] != "":
			f.Why.TC = &flowapi.TCRule{Problem: problems[port]}
		default:
			f.Why.TC = &flowapi.TCRule{Problem: "TC has no rule of the flow on " + port + " now"}
		}
	}
}

func byFlow(port string, rules []tcrule.Rule) map[string]*flowapi.TCRule {
	out := make(map[string]*flowapi.TCRule, len(rules))
	for _, r := range rules {
		out[r.Flow] = &flowapi.TCRule{Device: port, Chain: r.Chain, Priority: r.Priority, Handle: r.Handle, InHardware: r.InHardware, Packets: r.Hardware}
	}
	return out
}
