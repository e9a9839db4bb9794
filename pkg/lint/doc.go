// Package lint says which pods on VFs would have traffic outside hardware, by which object of a manifest, before it is
// applied.
//
// Place in the data flow:
//
//	YAML of a manifest, objects of a cluster -> Read -> World -> Check: rules -> []Finding
//
// Check is pure. The reasons are those of pkg/offload; a test gives its classifier the datapath flows that a rule's feature
// makes, and compares.
package lint
