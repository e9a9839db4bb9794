// Package ipam decides, once, which subnets and id a node has (Subnets) and which
// addresses a pod has (Addresses). The Cluster has Subnets. Each Zone has Addresses,
// and reads its nodes' subnets.
//
// The package stands between the API's objects and the builders: the controller's two
// allocation loops pass a Node or a Pod, and write the decision into the object's
// annotations (pkg/kube.Writer). When that annotation comes back through the
// informer, Allocated gives the decision to the builders (pkg/ovn). So no crash can
// lose a decision that is in use. A restart reads the decisions from the rows of the
// Northbound database, which are in use, and from the annotations, oldest first.
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
