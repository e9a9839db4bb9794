// Package uplink changes the eswitch's mode of a NIC that has the node's own traffic, in place.
//
// Place in the data flow:
//
//	pkg/vf/setup (a step of its plan) -> Mover.Change -> gateway: pause, detach -> kernel: mode
//	  -> restore name, MTU, addresses, routes -> gateway: attach, go on -> verify -> done, or undo
//
// Some drivers keep the netdev when the mode changes, others make a new one, perhaps with another name. A record on disk,
// by PCI address, says before the first change what the netdev was. The gateway's loop pauses until all of this is
// restored, also after a crash of the agent: it would take the new netdev's MTU for the administrator's.
//
// The record goes only when the servers that were reachable before are reachable again. If they are not within ten seconds,
// the former mode comes back, and the change is not tried again before the policy changes or the host boots.
// None of this asks the API server.
package uplink
