// Package relay collects facts of all nodes. It shows each caller only what the caller's roles in Kubernetes allow.
//
// Place in the data flow:
//
//	agents (pkg/flowapi) ─┐
//	API server (watched) ─┴─> Relay -> Restrict by the caller's rights -> pkg/web
//
// Summaries are always gathered, from what agents know anyway. Flows are asked of an agent only while a view of them is
// open. A relay has no state that another one would miss: each of its replicas gathers for itself, and none leads.
package relay
