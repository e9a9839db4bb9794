// Package load is both ends of a measurement's packets: a server that counts and answers, and a client that sends for a
// time and says how much arrived, how long answers took, and what CPU time both nodes used meanwhile.
//
// Place in the data flow:
//
//	perf -> exec in a pod: ovn-offload-agent probe load -> Question -> packets -> Report, as JSON
//	each pod of the measurement: ovn-offload-agent probe sink -> Serve
//
// A connection of TCP begins with a byte that says what it is for. Datagrams begin with a number, by which the server
// counts them until the client asks for the sum.
package load
