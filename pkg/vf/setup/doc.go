// Package setup makes bare NICs offloading ones, as OffloadPolicies say, and
// makes them what they were when the policies go.
//
// Place in the data flow:
//
//	OffloadPolicies, the Node's labels, PFs -> Select (pure) -> Want of each PF
//	inventory, holders of VFs, checkpoint: State -> Plan (pure) -> steps -> netdev, OVS
//	Runner: observe, plan, apply, until nothing is left -> results for NodeOffload
//
// The state before the first change is on disk before it, with the boot id:
// a reboot undoes everything by itself. A step may be repeated; a crash after
// any of them is followed by another plan from what is there then.
//
// A change that would take a VF from a pod, or the uplink from the node, is refused
// with the reason and tried again later. Without a policy nothing is changed. The
// order is: no VFs, mode, VFs, features; ice takes no other, and mlx5 does not
// need VFs' drivers unbound then. bnxt wants its VFs before the mode.
package setup
