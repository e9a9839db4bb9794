// Package ipam decides, once, which subnet and id a node has and which addresses
// a pod has.
//
// It stands between the facts and the builders: the controller's two allocation
// loops hand it a Node or a Pod, and write what it decided into the object's
// annotations (pkg/kube.Writer). Only when that annotation comes back through the
// informer is the decision a fact: Allocated then gives it to the builders
// (pkg/ovn). So no crash can lose a decision that is in use. A restart rebuilds
// the allocator from the rows of the Northbound database, which are live, and
// from the annotations, oldest first.
//
// An address belongs to a pod's UID, not to its name: a StatefulSet's web-0 that
// is deleted and created again is another holder and gets other addresses, while
// the rows of the first may still be there. The addresses of a pod that is
// completed, deleted or replaced come free in Release, which the controller calls
// when the rows that used them are gone. Freed addresses are the last to be
// handed out again.
//
// No client, clock or logger: same calls, same answers.
package ipam
