// Package refused puts a Warning Event on each object that has no effect, or has an annotation without effect, though its
// author relies on it. It runs in the leading controller.
//
// Place in the data flow:
//
//	table of pkg/contract/served -> objects of its kinds, annotations of all objects -> Events
//
// A cluster mostly has no such kinds. Each is looked for from time to time, and followed from then on until its CRD is
// deleted. The Event comes again every hour, so that there is one as long as there is the object.
//
//	kinds.go        objects of kinds that are not served
//	annotations.go  annotations that are not served
package refused
