// Package nodeoffload publishes a node's offload devices, their users and their offloaded traffic. The NodeOffload is
// for people, and workloads select nodes by labels of the Node.
//
// It is a package of its own because it joins packages that must not import each other: devices (pkg/vf), their users
// (pkg/vf/ledger), set-up (pkg/vf/setup) and traffic (pkg/offload).
//
// Place in the data flow:
//
//	inventory, claims, settings, report, policy results: Facts -> Status, Labels (pure)
//	Publisher: compares with the API, writes the difference -> NodeOffload, labels of the Node
//
// A change of devices is published after seconds, and traffic at most once a minute. Shares of traffic are rounded, so
// that noise causes no writes. Without the kind NodeOffload in the API server, only the labels are written.
package nodeoffload
