// Package kube is the edge to the Kubernetes API: what comes in, and what goes out.
//
// In: ClusterView (the controller's) and NodeView (an agent's) hold trimmed copies of objects, kept current by
// informers. An event never carries an object: OnChange gets the keys of the owners whose rows or devices may have
// changed, and these go to the queues of pkg/reconcile. Which owners a policy, a pod's labels, a service or a node's
// addresses concern is decided in pkg/policy and pkg/service, whose facts are a part of ClusterView.
//
// Out: Writer records decisions as annotations and conditions, Reporter turns failures into Events.
//
//	objects.go       what both views have; trim.go: what is kept of an object
//	clusterview.go   from an event to owners; adminwatch.go: policies whose CRDs may be absent
//	nodeview.go      the same for one node; localendpoints.go: endpoints of services on it
//	write.go         annotations and conditions; event.go, recorder.go: Events
//	api              connection; leader: one process at a time
package kube
