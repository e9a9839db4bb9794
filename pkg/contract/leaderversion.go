package contract

import "strings"

// LeaderVersion is the version that LeaderVersionKey says, if the process that wrote it holds the Lease still: a process of a
// version without the annotation leaves that of its predecessor.
func LeaderVersion(annotation, holder string) string {
	version, of, _ := strings.Cut(annotation, " ")
	if holder == "" || of != holder {
		return ""
	}
	return version
}
