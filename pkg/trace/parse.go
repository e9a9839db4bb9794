package trace

import (
	"bufio"
	"net/netip"
	"regexp"
	"strings"
)

// Flow is one logical flow that the packet meets.
type Flow struct {
	// Datapath is the logical switch or router, Egress says which of its pipelines, and Stage is the table's name in
	// ovn-northd, such as ls_in_acl_eval.
	Datapath string
	Egress   bool
	Stage    string
	Match    string
	// UUID has the first eight digits.
	UUID    string
	Actions []string
}

// Output is a port that the packet leaves by: Type is that of the Port_Binding, and empty for a port of a pod.
type Output struct{ Port, Type string }

// Path is what ovn-trace prints.
type Path struct {
	Flows   []Flow
	Outputs []Output
	// Chosen are the backends of a load balancer with template variables, which ovn-trace does not know.
	Chosen []netip.AddrPort
}

var (
	pipeline = regexp.MustCompile(`^(ingress|egress)\(dp="([^"]+)"`)
	flow     = regexp.MustCompile(`^ ?\d+\. (\w+) \([^)]*\): (.*), priority \d+, uuid ([0-9a-f]{8})$`)
	output   = regexp.MustCompile(`/\* output to "([^"]+)", type "([^"]*)" \*/`)
)

// Parse reads the detailed output of ovn-trace.
func Parse(text string) Path {
	var path Path
	datapath, egress := "", false
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if m := pipeline.FindStringSubmatch(line); m != nil {
			datapath, egress = m[2], m[1] == "egress"
			continue
		}
		if m := flow.FindStringSubmatch(line); m != nil {
			path.Flows = append(path.Flows, Flow{Datapath: datapath, Egress: egress, Stage: m[1], Match: m[2], UUID: m[3]})
			continue
		}
		if m := output.FindStringSubmatch(line); m != nil {
			path.Outputs = append(path.Outputs, Output{m[1], m[2]})
			continue
		}
		if strings.HasPrefix(line, "    ") && len(path.Flows) > 0 {
			last := &path.Flows[len(path.Flows)-1]
			last.Actions = append(last.Actions, strings.TrimSuffix(strings.TrimSpace(line), ";"))
		}
	}
	return path
}
