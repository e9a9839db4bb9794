package cni

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Request is one checked command.
type Request struct {
	Command string
	// Sandbox is the runtime's container ID of the pod's sandbox.
	Sandbox string
	Netns   string // path of the pod's namespace; "" when it is gone (DEL)
	IfName  string
	// Interfaces are what the attachment has in the pod, in the order of the result; nil: as the pod's annotations say in
	// an ADD, as the ports say in a CHECK.
	Interfaces []Interface
	// Pod is the zero Owner when the runtime did not name one.
	Pod contract.Owner
	// UID is "" when the runtime did not tell it.
	UID  string
	Conf Conf
}

// Interface is one interface of an attachment.
type Interface struct {
	Name    string // in the pod
	Network string // "" for the cluster's default network
	Device  string // that it must be, "" where the pod's resources decide
}

// Conf is what we read of the network configuration on stdin.
type Conf struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	// MTU overrides the agent's.
	MTU int `json:"mtu,omitempty"`
	// Topology is set for networks other than the default one, with the NetworkAttachmentDefinition's "namespace/name".
	Topology         string `json:"topology,omitempty"`
	NetAttachDefName string `json:"netAttachDefName,omitempty"`
	// DNS is for the result.
	DNS types.DNS `json:"dns,omitzero"`
	// DeviceID is the device that Multus has found for the pod; it writes it here,
	// and into RuntimeConfig for plugins that declare the capability.
	DeviceID      string `json:"deviceID,omitempty"`
	RuntimeConfig struct {
		DeviceID string `json:"deviceID,omitempty"`
	} `json:"runtimeConfig,omitzero"`
	// ValidAttachments is all that GC may keep.
	ValidAttachments []types.GCAttachment `json:"cni.dev/valid-attachments,omitempty"`
	PrevResult       json.RawMessage      `json:"prevResult,omitempty"`
}

// device is the PCI address of the pod's device, if the runtime names one.
func (c *Conf) device() string { return cmp.Or(c.RuntimeConfig.DeviceID, c.DeviceID) }

// parse checks what the runtime sent. Its errors are *types.Error.
func parse(body []byte) (*Request, error) {
	var wire shim.Request
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, fail(types.ErrDecodingFailure, "reading the request: %v", err)
	}
	r := &Request{Command: wire.Command, Sandbox: wire.ContainerID, Netns: wire.Netns, IfName: wire.IfName}
	if err := json.Unmarshal(wire.Config, &r.Conf); err != nil {
		return nil, fail(types.ErrDecodingFailure, "reading the network configuration: %v", err)
	}
	if err := r.Conf.check(wire.Command); err != nil {
		return nil, err
	}
	switch r.Command {
	case "GC", "STATUS":
		return r, nil
	case "ADD", "DEL", "CHECK":
	default:
		return nil, fail(types.ErrInvalidEnvironmentVariables, "CNI_COMMAND: unknown command %q", r.Command)
	}
	if err := r.checkContainer(); err != nil {
		return nil, err
	}
	if err := r.readArgs(wire.Args); err != nil && r.Command != "DEL" {
		return nil, err
	}
	return r, nil
}

func (c *Conf) check(command string) error {
	if err := utils.ValidateNetworkName(c.Name); err != nil {
		return fail(types.ErrInvalidNetworkConfig, "network name %q: %s", c.Name, err.Msg)
	}
	if c.MTU < 0 || c.MTU > 65535 {
		return fail(types.ErrInvalidNetworkConfig, "mtu %d is not between 0 and 65535", c.MTU)
	}
	if c.Topology != "" && c.NetAttachDefName == "" {
		return fail(types.ErrInvalidNetworkConfig, "network %s: netAttachDefName is missing", c.Name)
	}
	if err := new(version.Reconciler).Check(c.CNIVersion, shim.Versions()); err != nil {
		return fail(types.ErrIncompatibleCNIVersion, "cniVersion %q is none of %s",
			c.CNIVersion, strings.Join(shim.Versions().SupportedVersions(), ", "))
	}
	since := map[string]string{"CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}[command]
	if since == "" {
		return nil
	}
	if enough, err := version.GreaterThanOrEqualTo(c.CNIVersion, since); err != nil || !enough {
		return fail(types.ErrIncompatibleCNIVersion, "%s needs cniVersion %s, not %s", command, since, c.CNIVersion)
	}
	return nil
}

func (r *Request) checkContainer() error {
	if r.Sandbox == "" {
		return fail(types.ErrInvalidEnvironmentVariables, "CNI_CONTAINERID is missing")
	}
	if err := utils.ValidateContainerID(r.Sandbox); err != nil {
		return fail(types.ErrInvalidEnvironmentVariables, "CNI_CONTAINERID: %s %s", err.Msg, err.Details)
	}
	if err := utils.ValidateInterfaceName(r.IfName); err != nil {
		return fail(types.ErrInvalidEnvironmentVariables, "CNI_IFNAME: %s %s", err.Msg, err.Details)
	}
	if r.Command == "DEL" {
		return nil
	}
	if r.Netns == "" {
		return fail(types.ErrInvalidEnvironmentVariables, "CNI_NETNS is missing")
	}
	if netdev.Same(r.Netns) {
		return fail(types.ErrInvalidNetNS, "CNI_NETNS %s is the host's namespace", r.Netns)
	}
	return nil
}

// readArgs takes the pod's identity from CNI_ARGS, K8S_POD_NAME=x;K8S_POD_NAMESPACE=y.
func (r *Request) readArgs(text string) error {
	args := map[string]string{}
	for pair := range strings.SplitSeq(text, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			args[key] = value
		}
	}
	namespace, name := args["K8S_POD_NAMESPACE"], args["K8S_POD_NAME"]
	for key, value := range map[string]string{"K8S_POD_NAMESPACE": namespace, "K8S_POD_NAME": name} {
		if value == "" {
			return fail(types.ErrInvalidEnvironmentVariables, "CNI_ARGS: %s is missing", key)
		}
		if !isObjectName(value) {
			return fail(types.ErrInvalidEnvironmentVariables, "CNI_ARGS: %s=%q is not a Kubernetes name", key, value)
		}
	}
	r.Pod, r.UID = contract.PodOwner(namespace, name), args["K8S_POD_UID"]
	return nil
}

// isObjectName is the alphabet of Kubernetes names: it keeps separators of
// owner keys, of port names and of paths out.
func isObjectName(s string) bool {
	return len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// hostLink is the name of the host's end of a veth: the sandbox's on the default network, where a pod has one interface
// at most, else a hash.
func hostLink(sandbox, ifName, network string) string {
	if network != "" {
		sum := sha256.Sum256([]byte(sandbox + " " + ifName))
		sandbox = hex.EncodeToString(sum[:])
	}
	return sandbox[:min(len(sandbox), netdev.MaxName)]
}
