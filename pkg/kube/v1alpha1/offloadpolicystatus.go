package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionApplied is true when the policy is applied on each node that it selects.
const ConditionApplied = "Applied"

// OffloadPolicyStatus is bounded: it counts the nodes, and names those that change now and some with a problem.
type OffloadPolicyStatus struct {
	// observedGeneration is the generation of the spec to which the status belongs.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// selected is the number of nodes that the policy selects.
	Selected int `json:"selected"`

	// applied is the number of selected nodes with the policy's settings.
	Applied int `json:"applied"`

	// pending is the number of selected nodes that change, wait, or need a drain or a reboot.
	Pending int `json:"pending"`

	// failed is the number of selected nodes where the change failed or is refused.
	Failed int `json:"failed"`

	// changing are the nodes that may change now, up to maxUnavailable.
	Changing []string `json:"changing,omitempty"`

	// problems are nodes that need an action of an administrator, at most 20.
	Problems []NodeProblem `json:"problems,omitempty"`

	// problemsOmitted is the number of further nodes of this kind.
	ProblemsOmitted int `json:"problemsOmitted,omitempty"`

	// conditions are the conditions of the policy. Applied is true when each selected node has the settings.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeProblem says why a policy is not applied on a node.
type NodeProblem struct {
	// node is the name of the node.
	Node string `json:"node"`

	// device is the PCI address of the NIC. It is empty for the setting of Open vSwitch.
	Device string `json:"device,omitempty"`

	// state is the state of the policy on the node.
	State PolicyState `json:"state"`

	// message has the reason.
	Message string `json:"message,omitempty"`
}
