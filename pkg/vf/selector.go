package vf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Selector names PFs, each with the numbers of some of its VFs or without: ens1f0#0,2-7.
// A PF goes by the name of its uplink or by its PCI address.
type Selector []string

// ParseSelector takes names with spaces between them.
func ParseSelector(text string) (Selector, error) {
	s := Selector(strings.Fields(text))
	return s, s.Validate()
}

// Validate says which name cannot be read.
func (s Selector) Validate() error {
	for _, name := range s {
		if _, _, err := parsePF(name); err != nil {
			return err
		}
	}
	return nil
}

// Matches reports whether one of the names is that of the PF and has the VF's number.
func (s Selector) Matches(pf string, index int) bool {
	return slices.ContainsFunc(s, func(text string) bool {
		name, ranges, err := parsePF(text)
		return err == nil && name == pf && (ranges == nil ||
			slices.ContainsFunc(ranges, func(r [2]int) bool { return r[0] <= index && index <= r[1] }))
	})
}

func (s Selector) selects(pf *PF, index int) bool {
	up := pf.Uplink()
	return s.Matches(pf.Name, index) || up != nil && s.Matches(up.Name, index)
}

// parsePF reads name#0,2-7: a PF and ranges of its VFs, nil meaning all.
func parsePF(text string) (name string, ranges [][2]int, err error) {
	name, list, some := strings.Cut(text, "#")
	if name == "" {
		return "", nil, fmt.Errorf("%q names no PF", text)
	}
	if !some {
		return name, nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || last < first {
			return "", nil, fmt.Errorf("%q: %q is not a VF, nor a range of them", text, part)
		}
		ranges = append(ranges, [2]int{int(first), int(last)})
	}
	return name, ranges, nil
}
