package flows

import (
	_ "embed" // for meanings
	"fmt"
	"strings"
	"sync"
)

// cookieSpace are the upper 32 bits of the cookies of gateway bridges' flows. OVN's own cookies have no such bits.
const cookieSpace = 0x6f766e // "ovn"

// meanings says what the flows of each table and priority are for, as docs/north-south.md does.
//
//go:embed meanings.txt
var meanings string

// cookie names the table and the priority of a flow.
func cookie(table, priority int) uint64 {
	return cookieSpace<<32 | uint64(table)<<16 | uint64(priority) //nolint:gosec // both are small
}

// WithCookies gives the flows the cookies by which Meaning knows them.
func WithCookies(table []string) []string {
	out := make([]string, 0, len(table))
	for _, flow := range table {
		var number, priority int
		if _, err := fmt.Sscanf(flow, "table=%d,priority=%d", &number, &priority); err != nil {
			_, _ = fmt.Sscanf(flow, "priority=%d", &priority) // else a flow of no priority, which is 0 then
		}
		out = append(out, fmt.Sprintf("cookie=%#x,%s", cookie(number, priority), flow))
	}
	return out
}

// Meaning says what a flow of a gateway bridge is for; not ok for cookies of others.
func Meaning(of uint64) (_ string, ok bool) {
	meaning, ok := byCookie()[of]
	return meaning, ok
}

var byCookie = sync.OnceValue(func() map[uint64]string { //nolint:gochecknoglobals // read once
	out := map[uint64]string{}
	for line := range strings.Lines(meanings) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " | ")
		var table, priority int
		if _, err := fmt.Sscanf(key, "%d %d", &table, &priority); err == nil {
			what, to, _ := strings.Cut(text, " | ")
			to, _, _ = strings.Cut(to, " (")
			out[cookie(table, priority)] = strings.ReplaceAll(what+": "+to, "`", "")
		}
	}
	return out
})
