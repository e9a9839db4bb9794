// Package probe is both ends of a connectivity test's packets: a server that says its name, and a client that says whose
// answer it got, or why none.
//
// Place in the data flow:
//
//	conncheck -> exec in a pod: ovn-offload-agent probe ask -> Question -> packets -> Reply, as JSON
//	each pod of the test: ovn-offload-agent probe serve
//	pods whose connections last: ovn-offload-agent probe keep; exec in them: ovn-offload-agent probe kept -> Lasted, as JSON
package probe
