// Package nodeoffload publishes what a node has to offload to, who uses it and
// whether traffic is there: as an object that people can read, and as labels of
// the Node that workloads can select on.
//
// It is a package of its own because it joins what must not know each other:
// devices (pkg/vf), their users (pkg/vf/ledger), set-up (pkg/vf/setup) and
// traffic (pkg/offload).
//
// Place in the data flow:
//
//	inventory, claims, settings, report, policy results: Facts -> Status, Labels (pure)
//	Publisher: compares with the API, writes what differs -> NodeOffload, labels of the Node
//
// Everything about devices is published at once when it changes, traffic at
// leisure: its shares are rounded so that noise makes no writes. Where the
// API server does not know the kind, only the labels are written.
package nodeoffload
