// Package answer computes what the plugin of kubectl says about a cluster, from a snapshot of it.
//
// Place in the data flow:
//
//	snapshot.Snapshot -> Status, Explain, Topology -> text or JSON -> terminal
//
// Each answer is one type. Its text is made from the same fields as its JSON. Answers are pure functions: the same snapshot
// gives the same bytes.
package answer
