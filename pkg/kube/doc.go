// Package kube is the project's side of the Kubernetes API: what comes in, what
// goes out, and the names and formats that both ends agree on.
//
// In: View holds trimmed copies of nodes, pods and namespaces, kept current by
// informers. Its readers are the builders (pkg/ovn), the allocator (pkg/ipam)
// and the CNI server (pkg/cni). An event never carries an object: OnChange gets
// the keys of the owners whose rows or devices may have changed, mapped from the
// old and the new object, and these go to the queues of pkg/reconcile.
//
// Out: Writer records decisions as annotations and conditions, Reporter tells
// failures as Events.
//
//	owner.go     the work item and the value of external_ids
//	contract.go  annotations of OVN-Kubernetes, read and written
//	view.go      informers; owners.go: event to owner keys; trim.go: what is kept
//	service.go   services and endpoints; gateways.go: what of all nodes makes a difference to them
//	write.go     annotations and conditions; event.go, recorder.go: Events
//	api          connection; leader: one process at a time
package kube
