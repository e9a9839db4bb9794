package conformance

import (
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

const userspace = "userspace"

// skip is a line of skip.yaml: tests that the lab cannot run.
type skip struct {
	Test     string   `json:"test"`               // a regular expression over the test's whole name
	Reason   string   `json:"reason"`             // what the lab lacks
	Families []string `json:"families,omitempty"` // the labs that lack it; all if empty
	Datapath string   `json:"datapath,omitempty"` // userspace: a lab with OVS's kernel datapath has it

	match *regexp.Regexp
}

type skips []skip

func parseSkips(data []byte) (skips, error) {
	var list skips
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		return nil, fmt.Errorf("reading skip.yaml: %w", err)
	}
	for i, line := range list {
		if line.Test == "" || line.Reason == "" || line.Datapath != "" && line.Datapath != userspace {
			return nil, fmt.Errorf("skip.yaml: line %d needs a test, a reason, and no datapath but userspace", i+1)
		}
		var err error
		if list[i].match, err = regexp.Compile(line.Test); err != nil {
			return nil, fmt.Errorf("skip.yaml: %q: %w", line.Test, err)
		}
	}
	return list, nil
}

// of gives the lines that are about a lab of these address families and this datapath.
func (s skips) of(families, datapath string) skips {
	return slices.DeleteFunc(slices.Clone(s), func(line skip) bool {
		return len(line.Families) > 0 && !slices.Contains(line.Families, families) || line.Datapath != "" && line.Datapath != datapath
	})
}
