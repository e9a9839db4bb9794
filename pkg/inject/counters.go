package inject

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Counts are the packets of OpenFlows, by the first eight digits of their logical flow's UUID.
type Counts map[string]uint64

// cookies are those of the decisions of a path.
func cookies(steps []trace.Step) []string {
	var all []string
	for _, s := range steps {
		if s.Flow != "" {
			all = append(all, s.Flow)
		}
	}
	return all
}

// countCommand reads the OpenFlows of cookies.
func countCommand(cookies []string) []string {
	const script = `for cookie; do ovs-ofctl -O OpenFlow15 dump-flows br-int "cookie=0x$cookie/-1"; done`
	return append([]string{"sh", "-euc", script, "count"}, cookies...)
}

var counted = regexp.MustCompile(`cookie=0x([0-9a-f]+),.* n_packets=(\d+),`)

// parseCounts adds up what ovs-ofctl has printed.
func parseCounts(text string) Counts {
	counts := Counts{}
	for _, m := range counted.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.ParseUint(m[2], 10, 64); err == nil {
			counts[strings.Repeat("0", max(0, 8-len(m[1])))+m[1]] += n
		}
	}
	return counts
}

// since is what was counted after an earlier reading. A flow that was made anew in between begins at 0.
func (c Counts) since(before Counts) Counts {
	more := Counts{}
	for cookie, n := range c {
		if n > before[cookie] {
			more[cookie] = n - before[cookie]
		}
	}
	return more
}
