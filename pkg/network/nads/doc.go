// Package nads keeps the NetworkAttachmentDefinitions (NADs) that stand for networks of other kinds: UserDefinedNetworks,
// ClusterUserDefinedNetworks, and the kinds of OVN4NFV. It runs in the leading controller.
//
// Place in the data flow:
//
//	objects, Namespaces, NADs, pods -> newPlan (pure) -> NADs, status of the object -> pkg/network
//
// A NAD is created, changed and removed only when the object is its controller: a foreign NAD of the same name is left
// alone, and the condition of the object says so. A finalizer on the object and on its NADs keeps a network while
// pods use it. When a namespace is being deleted, its NADs wait only for pods in that namespace, and pods of namespaces
// that may not use a network keep none of its NADs.
//
//	nads.go    the loop: which events concern which object
//	plan.go    what is to be done for an object; pure
//	writer.go  does it
//	status.go  conditions and Events; pure
package nads
