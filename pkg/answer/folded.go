package answer

import (
	"fmt"
	"slices"
	"strings"
)

// maxLines bounds lines with the same reason: of more nodes only the number is said.
const maxLines = 8

// folded has one line for all nodes of which the same could not be read, if they are many. The lines are "node/NAME: why".
func folded(lines []string) []string {
	count := map[string]int{}
	why := func(line string) string {
		if node, why, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(node, "node/") {
			return why
		}
		return ""
	}
	for _, line := range lines {
		count[why(line)]++
	}
	var out []string
	for _, line := range lines {
		reason := why(line)
		if reason != "" && count[reason] > maxLines {
			line = fmt.Sprintf("%d nodes: %s", count[reason], reason)
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
