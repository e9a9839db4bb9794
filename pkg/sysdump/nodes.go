package sysdump

import "slices"

// Nodes are those of which an archive has flows and logs, and lines for those that are left out.
func Nodes(all, only []string) (nodes, left []string) {
	for _, node := range all {
		if len(only) == 0 || slices.Contains(only, node) {
			nodes = append(nodes, node)
		} else {
			left = append(left, "node/"+node+": not in this archive")
		}
	}
	return nodes, left
}
