// Package preflight says whether a node is fit for the network, before anything on the node is changed.
//
// Place in the data flow:
//
//	netlink, sysfs, /proc, files of the host -> Observe -> Facts -> Check -> Report
//	Report -> ovn-offload-agent preflight: text, JSON and an exit code
//	       -> the chart's init containers, which keep Open vSwitch and the agent from starting
//
// Observe reads and decides nothing. Check is a pure function of Facts: a table test has a case for each finding.
// docs/preflight.md has a section for each check.
package preflight
