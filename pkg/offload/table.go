package offload

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// WriteTable writes a report for people: a line for the node, a line for each
// port that has flows, the pods' first, and why what is outside hardware is so.
func WriteTable(w io.Writer, r Report) error {
	state := "off"
	switch {
	case r.Settings.RestartDue:
		state = "set, in force when ovs-vswitchd is restarted"
	case r.Settings.HWOffload:
		state = "on, tc-policy " + r.Settings.Policy
	}
	sum := r.Total.Sum()
	fmt.Fprintf(w, "hw-offload of OVS: %s. %d of %d datapath flows are in hardware.\n\n", state, r.Total.Hardware.Flows, sum.Flows)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tPORT\tFLOWS\tPACKETS\tHARDWARE\tTC\tOVS\tOUTSIDE BECAUSE")
	for _, p := range podsFirst(r.Ports) {
		all := both(p)
		total := all.Sum()
		if total.Flows == 0 {
			continue
		}
		share := func(n uint64) string {
			if total.Packets == 0 {
				return "-"
			}
			return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(total.Packets))
		}
		pod := "-"
		if p.Pod != (contract.Owner{}) {
			pod = p.Pod.Namespace + "/" + p.Pod.Name
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", pod, p.Name, total.Flows, total.Packets,
			share(all.Hardware.Packets), share(all.TC.Packets), share(all.OVS.Packets+all.Partial.Packets), because(p.Outside))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Malformed > 0 {
		fmt.Fprintf(w, "\n%d lines of the dump were not understood\n", r.Malformed)
	}
	_, err := fmt.Fprintln(w)
	return err
}

func podsFirst(ports []PortReport) []PortReport {
	return slices.SortedStableFunc(slices.Values(ports), func(a, b PortReport) int {
		return strings.Compare(rank(a), rank(b))
	})
}

func rank(p PortReport) string {
	if p.Pod == (contract.Owner{}) {
		return "\xff" // after every name
	}
	return p.Pod.String()
}

func both(p PortReport) Share {
	all := p.From
	for _, at := range Places() {
		all.At(at).Add(*p.To.At(at))
	}
	return all
}

// because names the three reasons with the most packets.
func because(causes []Cause) string {
	var words []string
	for _, c := range causes[:min(len(causes), 3)] {
		word := string(c.Reason)
		if c.Detail != "" {
			word += " (" + c.Detail + ")"
		}
		words = append(words, word)
	}
	if words == nil {
		return "-"
	}
	return strings.Join(words, ", ")
}
