package vf

import (
	"errors"
	"fmt"
)

// RepresentorOf names the representor of one of the PF's VFs. Its error says why the VF has none here.
func (p *PF) RepresentorOf(v *VF) (string, error) {
	switch {
	case !p.Switchdev():
		return "", fmt.Errorf("VF %s: the eswitch of its PF %s is in mode %s, not switchdev", v.Name, p.Name, p.Eswitch.Mode)
	case v.Representor == nil:
		var problems []error
		for _, problem := range p.Problems {
			problems = append(problems, errors.New(problem))
		}
		return "", fmt.Errorf("VF %s has no representor: %w", v.Name, errors.Join(problems...))
	}
	return v.Representor.Name, nil
}
