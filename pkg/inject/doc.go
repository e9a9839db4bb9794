// Package inject sends packets in the name of a pod, and says where they came to.
//
// Place in the data flow:
//
//	trace.Connection -> Packet -> ovn-controller's inject-pkt on the node of the pod
//	tcpdump on the nodes of both ends -> Sighting
//	counters of the path's OpenFlows, before and after -> Counted
//	Sightings, Counted, the computed path -> Result.Ended, pure
//
// The programs run in the agents' containers on the nodes, by the Exec that the caller gives. It is a package of its own
// because trace is pure, and capture is about files.
package inject
