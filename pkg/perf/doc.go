// Package perf measures a network between pods of two nodes: throughput, answers and connections, where the packets were
// handled meanwhile, and the CPU time of both nodes.
//
// Place in the data flow:
//
//	Cases: resource, expression -> []Case, pure      Objects: Place -> pods, pure
//	kubectl offload perf: makes the pods, exec of load in them, reads the flows of both nodes meanwhile
//	Meter: flows of several moments -> share by place, pure
//	NewResult: Case, load.Report, Meter -> Result -> answer.Measured, pure
//
// The load itself is pkg/perf/load.
package perf
