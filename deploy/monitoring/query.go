package monitoring

import (
	"regexp"
	"slices"
	"strings"
)

var name = regexp.MustCompile(`[a-z]*:?ovn_offload_[a-z0-9_:]+`)

// Names are the metrics and the records of an expression, each once, without the suffixes of histograms and summaries.
func Names(expr string) []string {
	var names []string
	for _, found := range name.FindAllString(expr, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			found = strings.TrimSuffix(found, suffix)
		}
		if !slices.Contains(names, found) {
			names = append(names, found)
		}
	}
	return names
}

// Needs are what a node must have for the metrics of an expression, also for those that it uses by records.
func Needs(expr string) []string {
	var needs []string
	for _, name := range Names(expr) {
		for _, r := range Records() {
			if r.Name == name {
				needs = append(needs, Needs(r.Expr)...)
			}
		}
		for _, m := range Metrics() {
			if m.Name == name && m.Needs != "" {
				needs = append(needs, m.Needs)
			}
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}
