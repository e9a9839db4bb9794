// Package served has one table of what a user's manifest may say to a network: annotations, labels and kinds of Kubernetes,
// Multus, OVN-Kubernetes, OVN4NFV and KubeVirt. It says of each whether it is served.
//
// Place in the data flow:
//
//	Kinds()                -> pkg/kube/refused  an Event on each object of a kind that has no effect
//	Annotations()          -> pkg/kube/refused  an Event on each object with an annotation that has no effect
//	                       -> pkg/nodecheck     how many such objects there are
//	Annotations(), Kinds() -> docs/served.md
//
// A test compares the table with the constants of pkg/contract and with the code that reads them.
//
//	kinds.go        the kinds
//	annotations.go  annotations and labels
//	refused.go      which annotations of an object have no effect
package served

// State says what becomes of an annotation, a label or the objects of a kind.
type State string

// The states. What is Refused has no effect, though its author relies on it. What is Harmless has no effect of
// its own here, and nothing that its author relies on is missing.
const (
	Served   State = "served"
	Refused  State = "refused"
	Harmless State = "harmless"
)

// Origins of what the tables have.
const (
	kubernetes    = "Kubernetes"
	multus        = "Multus"
	ovnKubernetes = "OVN-Kubernetes"
	ovn4nfv       = "OVN4NFV"
	kubeVirt      = "KubeVirt"
	openShift     = "OpenShift"
	ours          = "ovn-offload"
)
