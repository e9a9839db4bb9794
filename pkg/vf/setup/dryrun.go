package setup

import (
	"fmt"
	"slices"
	"strings"
)

// planned lists the steps of a dry run for a person.
func planned(c Change) string {
	var list []string
	for _, step := range c.Steps {
		list = append(list, step.String())
	}
	if c.Then != "" {
		list = append(list, c.Then)
	}
	return strings.Join(list, "; ")
}

// laterFeatures says what a later plan does on the links that the steps create.
func laterFeatures(want Want, steps []Step) string {
	creates := slices.ContainsFunc(steps, func(s Step) bool {
		switch s.(type) {
		case setVFs, setMode:
			return true
		}
		return false
	})
	if !creates || want.HWTC == nil {
		return ""
	}
	return fmt.Sprintf("set hw-tc-offload of the uplink and the representors to %t", *want.HWTC)
}
