// Package cni gives pods their network: it is the agent's side of the CNI
// plugin, a server on a root-only unix socket with one command a request.
//
// Place in the data flow:
//
//	pkg/cni/shim -> Server -> Attach: pod -> annotation -> attach -> flows -> CNI result
//	                       -> Detach, check, collect (GC), Sweep
//	controller -> annotation pod-networks -> Pods (informer) ----^
//	Attach -> pkg/netdev (veth in the pod's namespace), or, if the pod asks for a VF:
//	       -> Functions: kubelet -> pkg/vf/ledger -> pkg/vf/attach (the VF into the pod)
//	       -> plug.Plugger: Port and Interface in the local database -> ovn-controller -> ovn-installed
//
// Nothing is decided here: addresses come from the annotation, and the result
// repeats it. Each stage waits for an event, has a deadline, and names itself
// in its error. A step that was done is undone when a later one fails.
//
// An attachment is a sandbox and an interface name, as the runtime names it. It has
// one interface or several, each on another network, which are made or undone
// together.
//
// What is attached is written nowhere but where it is: the OVS rows have the pod on
// its network as owner (so a pod's new sandbox replaces the rows of its old one) and
// name their sandbox, the host's veth carries the sandbox in its alias, and a
// VF's claim is in the ledger for as long as its representor is a port. So
// the server may be killed at any time; Sweep at the next start removes what
// is stale. Commands of one pod are run one after the other; DEL ends an ADD that
// waits.
package cni
