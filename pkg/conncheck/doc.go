// Package conncheck tests a network with packets: it makes pods, services and policies in a namespace of its own, asks
// from pods to pods, services, nodes and names, and compares each answer with what a table expects.
//
// Place in the data flow:
//
//	Cases: table -> []Case, pure                        Objects: nodes, image -> objects, pure
//	Runner: []Case -> []Result                          Judge: Case, probe.Reply -> Result, pure
//	Expect: ports of a way -> place, pure               Witness: flows of agents -> places of results
//	kubectl offload test: makes the objects, waits, Run with exec into the pods, deletes the namespace
//
// A group of cases has one at least that must fail: without it, a network without any policy, or a probe that always says
// yes, would pass.
package conncheck
