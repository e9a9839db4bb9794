package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The handshake between a host and its DPU, in annotations of the host's pods
// and a Lease. Keys and spelling are OVN-Kubernetes'; the fields that are ours
// are marked so and ignored by others.
const (
	// DPUConnectionKey holds a DPUConnection for each network; host to DPU.
	DPUConnectionKey = "k8s.ovn.org/dpu.connection-details"
	// DPUStatusKey holds a DPUStatus for each network; DPU to host.
	DPUStatusKey = "k8s.ovn.org/dpu.connection-status"
	// ManagementPortKey, on a Node, holds a ManagementFunction for each network;
	// host to DPU.
	ManagementPortKey = "k8s.ovn.org/node-mgmt-port"
	// DPUHostLabel is on the Nodes of hosts with a DPU, DPULabel on those of DPUs.
	DPUHostLabel = "k8s.ovn.org/dpu-host"
	DPULabel     = "k8s.ovn.org/dpu"
	// SetUpLabel is on the Nodes that an agent has set up, until they are cleaned: the agent's mode. Ours.
	SetUpLabel = "ovn-offload.io/set-up"
	// DPULeaseNamespace has the Leases of DPUs.
	DPULeaseNamespace = "ovn-kubernetes"
	// DPULeasePrefix and the host's name are the Lease that its DPU renews.
	DPULeasePrefix = "ovn-dpu-"
	// DPULeaseHolder is who holds it.
	DPULeaseHolder = "ovnkube-dpu-node"
	// DPUProblemKey is an annotation of the Lease: why the DPU attaches no pods
	// now. Absent when it does. Ours.
	DPUProblemKey = "ovn-offload.io/dpu-problem"
	// DPUChassisKey is an annotation of the Lease: the OVS system-id of the DPU that
	// renews it. Ours.
	DPUChassisKey = "ovn-offload.io/dpu-chassis"
	// DPUPodMTUKey is an annotation of the Lease: the MTU that the DPU's underlay
	// leaves to pods, a decimal number. Ours.
	DPUPodMTUKey = "ovn-offload.io/pod-mtu"
)

// DPUReady and DPUError are the values of DPUStatus.Status.
const (
	DPUReady = "Ready"
	DPUError = "Error"
)

// FunctionNumber is text in JSON.
type FunctionNumber uint32

// MarshalText implements encoding.TextMarshaler.
func (n FunctionNumber) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(n), 10), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *FunctionNumber) UnmarshalText(text []byte) error {
	parsed, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a function's number", text)
	}
	*n = FunctionNumber(parsed)
	return nil
}

// DPUConnection says which function of a host's NIC a pod's sandbox gets, with
// the numbers that the NIC's switch has for it. One of VF and SF is set.
type DPUConnection struct {
	PF      FunctionNumber  `json:"pfId"`
	VF      *FunctionNumber `json:"vfId,omitempty"`
	Sandbox string          `json:"sandboxId"`
	// Netdev is the function's name on the host, "" when it has no netdev.
	Netdev string `json:"vfNetdevName,omitempty"`
	// SF is a scalable function's number. Ours.
	SF *FunctionNumber `json:"sfId,omitempty"`
	// PFMAC is the permanent address of the PF, which both sides can see and
	// which so tells cards apart. Ours.
	PFMAC MAC `json:"pfMac,omitempty"`
	// OfDPU says that the host takes the PF for one of the DPU, by its product or because it has no other NIC with
	// VFs. A DPU that does not know the addresses of PFs goes by the number then. Ours.
	OfDPU bool `json:"ofDpu,omitempty"`
	// Interface is the name inside the pod. Ours.
	Interface string `json:"podIfName,omitempty"`
	// Attachment is the interface name with which the runtime names the attachment, "" where that is Interface. Ours.
	Attachment string `json:"attachment,omitempty"`
	// Network is the name of the network configuration. Ours.
	Network string `json:"network,omitempty"`
}

// DPUStatus says what became of a DPUConnection.
type DPUStatus struct {
	Status string `json:"Status"`
	Reason string `json:"Reason,omitempty"`
	// Sandbox is the one that Status is about: an annotation may be older than
	// the details beside it. Ours.
	Sandbox string `json:"SandboxId,omitempty"`
}

// ManagementFunction is the VF that a host has as its own interface in its pod
// subnet, with the numbers that the NIC's switch has for it.
type ManagementFunction struct {
	Device string `json:"DeviceId,omitempty"`
	PF     uint32 `json:"PfId"`
	Number uint32 `json:"FuncId"`
	// PFMAC is as in DPUConnection. Ours.
	PFMAC MAC `json:"PfMac,omitempty"`
}

// ParseManagementFunction reads ManagementPortKey for network; nil when it is not
// named. The legacy form, one bare object, is the default network's.
func ParseManagementFunction(value, network string) (*ManagementFunction, error) {
	raw, err := networkValue(value, network)
	if err == nil && raw == nil && network == DefaultNetwork {
		raw, err = bareObject(value, "FuncId")
	}
	if raw == nil || err != nil {
		return nil, err
	}
	var f ManagementFunction
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("management port of network %q: %w", network, err)
	}
	return &f, nil
}

// ParseDPUConnection reads DPUConnectionKey for network; nil when it is not
// named. The legacy form, one bare object, is the default network's.
func ParseDPUConnection(value, network string) (*DPUConnection, error) {
	raw, err := networkValue(value, network)
	if err == nil && raw == nil && network == DefaultNetwork {
		raw, err = bareObject(value, "sandboxId")
	}
	if raw == nil || err != nil {
		return nil, err
	}
	var c DPUConnection
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("connection of network %q: %w", network, err)
	}
	return &c, c.validate()
}

// bareObject is the value itself when it is an object with that field.
func bareObject(value, field string) (json.RawMessage, error) {
	bare, err := networkValue(value, field)
	if bare == nil {
		return nil, err
	}
	return json.RawMessage(value), nil
}

func (c *DPUConnection) validate() error {
	switch {
	case c.Sandbox == "":
		return errors.New("sandboxId is missing")
	case (c.VF == nil) == (c.SF == nil):
		return errors.New("exactly one of vfId and sfId must be set")
	}
	return nil
}

// ParseDPUStatus reads DPUStatusKey for network; nil when it is not named.
func ParseDPUStatus(value, network string) (*DPUStatus, error) {
	raw, err := networkValue(value, network)
	if raw == nil || err != nil {
		return nil, err
	}
	var s DPUStatus
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("status of network %q: %w", network, err)
	}
	return &s, nil
}

// IsDPUHost says that a DPU is the network side of the Node.
func IsDPUHost(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	_, is := node.Labels[DPUHostLabel]
	return is
}
