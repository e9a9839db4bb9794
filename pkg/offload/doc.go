// Package offload says whether traffic runs in hardware, why not if not, and
// which settings OVS needs so that it can.
//
// Place in the data flow:
//
//	ovs-vswitchd -> unixctl -> dpflow -> Classify (pure) -> Report -> nodeoffloads, a command
//	two Reports  -> Compare (pure) -> Delta -> Metrics, Findings (pure) -> Events
//	other_config -> PlanSettings (pure) -> keys to merge, and whether ovs-vswitchd must start again
//
// A packet that conntrack sends round passes several datapath flows, each with
// counters of its own. Packets are therefore counted where their way ends, at
// flows that do not recirculate. They are in hardware when that last flow is and
// a way to it leads through hardware only.
//
// Reasons are derived, for the datapath does not tell them: from the settings,
// the port, the actions and matches that TC has no word for, and the layer that
// a flow ended up in. A flow in TC but not in the NIC was offered and refused.
// Nothing here asks per pod, and a dump costs ovs-vswitchd's main thread time,
// so Sampler keeps its distance.
package offload
