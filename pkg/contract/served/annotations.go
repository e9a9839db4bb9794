package served

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Annotation is an annotation or a label of objects.
type Annotation struct {
	// Of is the project that defines the key.
	Of string
	// On are the kinds of the objects.
	On  []string
	Key string
	// Label says that the key is a label's.
	Label bool
	State State
	// Note is a sentence for users: what is not done, or what the key is for.
	Note string
	// Asks is the only value that asks for something; "": every value does.
	Asks string
	// Check fails for values that the project itself would not take; nil: there is no check.
	Check func(value string) error
}

// Annotations are all annotations and labels of the table, in the order of the page.
func Annotations() []Annotation {
	return slices.Concat(kubernetesAnnotations(), multusAnnotations(), ovnAnnotations(), ovnWritten(), otherAnnotations(), ourAnnotations(), ourLabels())
}

// Kinds of objects with annotations.
const (
	pod         = "Pod"
	node        = "Node"
	namespace   = "Namespace"
	service     = "Service"
	lease       = "Lease"
	policy      = "NetworkPolicy"
	multiPolicy = "MultiNetworkPolicy"
	nad         = "NetworkAttachmentDefinition"
)

func on(kinds ...string) []string { return kinds }

func kubernetesAnnotations() []Annotation {
	return []Annotation{
		{
			Of: kubernetes, On: on(pod), Key: "kubernetes.io/ingress-bandwidth", State: Refused, Check: isBandwidth,
			Note: "the bandwidth of packets to the pod is not limited.",
		},
		{
			Of: kubernetes, On: on(pod), Key: "kubernetes.io/egress-bandwidth", State: Refused, Check: isBandwidth,
			Note: "the bandwidth of packets from the pod is not limited.",
		},
		{Of: kubernetes, On: on(pod), Key: contract.ConfigHashKey, State: Served, Note: "names a static pod; set by the kubelet."},
		{
			Of: kubernetes, On: on(service), Key: "service.kubernetes.io/topology-mode", State: Harmless,
			Note: "Kubernetes writes hints into EndpointSlices for it, and the hints are used.",
		},
		{
			Of: kubernetes, On: on(service), Key: "service.kubernetes.io/topology-aware-hints", State: Harmless,
			Note: "Kubernetes writes hints into EndpointSlices for it, and the hints are used.",
		},
		{
			Of: kubernetes, On: on(service), Key: "service.kubernetes.io/service-proxy-name", Label: true, State: Served,
			Note: "another program serves the Service.",
		},
		{
			Of: kubernetes, On: on("EndpointSlice"), Key: "service.kubernetes.io/headless", Label: true, State: Harmless,
			Note: "Kubernetes marks slices that are for DNS alone.",
		},
	}
}

func multusAnnotations() []Annotation {
	return []Annotation{
		{
			Of: multus, On: on(pod), Key: contract.NetworksKey, State: Served,
			Note: "the further networks of the pod, with these [keys](networks.md#what-a-pod-asks-for): other keys, such as `bandwidth`, have no effect.",
		},
		{
			Of: multus, On: on(pod), Key: contract.DefaultNetworkKey, State: Served,
			Note: "what the pod asks for on a [primary network](user-defined-networks.md#primary-networks).",
		},
		{Of: multus, On: on(pod), Key: contract.NetworkStatusKey, State: Served, Note: "the interfaces of the pod; written by Multus or the controller."},
		{Of: multus, On: on(pod), Key: "k8s.v1.cni.cncf.io/networks-status", State: Harmless, Note: "earlier releases of Multus wrote it."},
		{Of: multus, On: on(nad), Key: contract.ResourceNameKey, State: Served, Note: "the resource whose device becomes the interface: [vf.md](vf.md)."},
		{Of: multus, On: on(multiPolicy), Key: contract.PolicyForKey, State: Served, Note: "the networks of the [policy](multi-network-policy.md)."},
	}
}

func ovnAnnotations() []Annotation {
	return []Annotation{
		{
			Of: ovnKubernetes, On: on(namespace, "AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy"), Key: contract.ACLLoggingKey, State: Served,
			Note: "[logging](network-policy.md#logging) of decisions.",
		},
		{
			Of: ovnKubernetes, On: on(policy, multiPolicy), Key: "k8s.ovn.org/acl-stateless", Asks: "true", State: Refused,
			Note: "the rules are in force with connection tracking, so that answers pass without a rule.",
		},
		{
			Of: ovnKubernetes, On: on(namespace), Key: "k8s.ovn.org/multicast-enabled", Asks: "true", State: Refused,
			Note: "multicast packets do not reach pods.",
		},
		{
			Of: ovnKubernetes, On: on(namespace), Key: "k8s.ovn.org/routing-external-gws", State: Refused,
			Note: "packets of the pods leave by the gateway of the node, and not by these gateways.",
		},
		{
			Of: ovnKubernetes, On: on(pod), Key: "k8s.ovn.org/routing-namespaces", State: Refused,
			Note: "the pod is no gateway of these namespaces.",
		},
		{Of: ovnKubernetes, On: on(pod), Key: "k8s.ovn.org/routing-network", State: Refused, Note: "the pod is no gateway of other pods."},
		{Of: ovnKubernetes, On: on(namespace, pod), Key: "k8s.ovn.org/bfd-enabled", State: Refused, Note: "no gateway is watched by BFD."},
		{Of: ovnKubernetes, On: on(namespace), Key: "k8s.ovn.org/external-gw-pod-ips", State: Harmless, Note: "OVN-Kubernetes writes it."},
		{Of: ovnKubernetes, On: on(namespace), Key: contract.PrimaryNetworkLabel, Label: true, State: Served, Note: "pods have a [primary network](user-defined-networks.md#primary-networks)."},
		{Of: ovnKubernetes, On: on(pod), Key: contract.OpenPortsKey, State: Served, Note: "ports that the default network reaches in a pod with a primary network."},
		{
			Of: ovnKubernetes, On: on(pod), Key: "k8s.ovn.org/primary-udn-ipamclaim", State: Refused,
			Note: "name the IPAMClaim by ipam-claim-reference in v1.multus-cni.io/default-network.",
		},
		{
			Of: ovnKubernetes, On: on(service), Key: "k8s.ovn.org/idled-at", State: Refused,
			Note: "a connection to the Service wakes no workload: scale it by hand.",
		},
		{
			Of: openShift, On: on(service), Key: "idling.alpha.openshift.io/idled-at", State: Refused,
			Note: "a connection to the Service wakes no workload: scale it by hand.",
		},
		{Of: ovnKubernetes, On: on(service), Key: "k8s.ovn.org/unidled-at", State: Harmless, Note: "OVN-Kubernetes writes it."},
		{Of: ovnKubernetes, On: on(node), Key: contract.GatewayMTUSupportKey, State: Served, Note: "`false`: the size of packets to pods is not checked."},
		{
			Of: ovnKubernetes, On: on(node), Key: "k8s.ovn.org/node-ingress-snat-exclude-subnets", State: Refused,
			Note: "packets of these subnets are translated like others.",
		},
		{
			Of: ovnKubernetes, On: on(node), Key: "k8s.ovn.org/egress-assignable", Label: true, State: Harmless,
			Note: "it has a meaning with EgressIP alone, which is refused.",
		},
		{Of: ovnKubernetes, On: on(node), Key: contract.DPUHostLabel, Label: true, State: Served, Note: "the node is a [host with a DPU](dpu.md)."},
		{Of: ovnKubernetes, On: on(node), Key: contract.DPULabel, Label: true, State: Served, Note: "the node is a [DPU](dpu.md)."},
	}
}

// ovnWritten are those that OVN-Kubernetes writes itself, and what is left of them after a migration.
func ovnWritten() (all []Annotation) {
	for _, a := range []struct{ on, key, note string }{
		{pod, contract.PodNetworksKey, "addresses of the pod; written by the controller."},
		{pod, contract.DPUConnectionKey, "the VF of the pod; written by the agent of a host with a DPU."},
		{pod, contract.DPUStatusKey, "the state of the pod's port; written by the agent of a DPU."},
		{nad, contract.NetworkNameKey, "the name of the network; written by the controller."},
		{nad, contract.NetworkIDKey, "the number of the network; written by the controller."},
		{node, contract.NodeSubnetsKey, "the pod subnets of the node; written by the controller."},
		{node, contract.NodeIDKey, "the number of the node; written by the controller."},
		{node, contract.NodeChassisIDKey, "the chassis of the node; written by the agent."},
		{node, contract.NodeEncapIPsKey, "the addresses of tunnels; written by the agent."},
		{node, contract.NodePrimaryAddressKey, "the address of the node; written by the agent."},
		{node, contract.HostCIDRsKey, "all addresses of the node; written by the agent."},
		{node, contract.GatewayConfigKey, "the gateway of the node; written by the agent."},
		{node, contract.ManagementPortKey, "the VF of the management port; written by the agent."},
	} {
		all = append(all, Annotation{Of: ovnKubernetes, On: on(a.on), Key: a.key, State: Served, Note: a.note})
	}
	all = append(all, Annotation{
		Of: ovnKubernetes, On: on(nad), Key: contract.UserDefinedNetworkLabel, Label: true, State: Served,
		Note: "the definition is made from another object; written by the controller.",
	})
	for _, key := range []string{
		"bridge-egress-ips", "hybrid-overlay-distributed-router-gateway-ip", "hybrid-overlay-distributed-router-gateway-mac", "hybrid-overlay-node-subnet",
		"layer2-topology-version", "network-ids", "node-gateway-router-lrp-ifaddrs", "node-masquerade-subnet", "node-mgmt-port-mac-addresses",
		"node-transit-switch-port-ifaddr", "primary-dpu-host-addr", "secondary-host-egress-ips", "udn-layer2-node-gateway-router-lrp-tunnel-ids", "vteps", "zone-name",
	} {
		all = append(all, Annotation{Of: ovnKubernetes, On: on(node), Key: contract.OVNPrefix + key, State: Harmless, Note: "OVN-Kubernetes writes it."})
	}
	for _, key := range []string{"service-name", "source-endpointslice-version"} {
		all = append(all, Annotation{
			Of: ovnKubernetes, On: on("EndpointSlice"), Key: contract.OVNPrefix + key, Label: true, State: Served,
			Note: "the slice is a copy with addresses of a primary network; written by the controller.",
		})
	}
	for _, key := range []string{"endpointslice-network", "source-endpointslice"} {
		all = append(all, Annotation{
			Of: ovnKubernetes, On: on("EndpointSlice"), Key: contract.OVNPrefix + key, State: Served,
			Note: "the slice is a copy with addresses of a primary network; written by the controller.",
		})
	}
	for _, key := range []string{"route-advertisements", "tunnel-keys"} {
		all = append(all, Annotation{Of: ovnKubernetes, On: on(nad), Key: contract.OVNPrefix + key, State: Harmless, Note: "OVN-Kubernetes writes it."})
	}
	return all
}

func otherAnnotations() []Annotation {
	return []Annotation{
		{Of: ovn4nfv, On: on(pod), Key: contract.NodusNetworksKey, State: Served, Note: "the further networks of the pod: [ovn4nfv.md](ovn4nfv.md)."},
		{Of: ovn4nfv, On: on(pod), Key: contract.OVNNetworkKey, State: Served, Note: "the further networks of the pod: [ovn4nfv.md](ovn4nfv.md)."},
		{Of: ovn4nfv, On: on(pod), Key: contract.OVNRoutesKey, State: Served, Note: "routes by further interfaces: [ovn4nfv.md](ovn4nfv.md#pods)."},
		{Of: ovn4nfv, On: on(pod), Key: contract.NodusInterfacesKey, State: Served, Note: "the interfaces of the pod; written by the controller."},
		{Of: kubeVirt, On: on(pod), Key: contract.VMLabel, Label: true, State: Served, Note: "the pod runs this [virtual machine](networks.md#virtual-machines)."},
		{Of: kubeVirt, On: on(pod), Key: contract.VMReadyKey, State: Served, Note: "the virtual machine runs in this pod from now on."},
		{Of: kubeVirt, On: on(pod), Key: contract.VMAddressKey, State: Served, Note: "the virtual machine asks for its addresses by DHCP."},
	}
}

func ourAnnotations() (all []Annotation) {
	for _, a := range []struct{ on, key, note string }{
		{namespace, contract.MaxAttachmentsKey, "how many interfaces the pods may have: [quotas](networks.md#quotas)."},
		{nad, contract.NamespacesKey, "which other namespaces [may use](tenancy.md) the network."},
		{nad, contract.GatewayKey, "what pods reach by the [gateway](networks.md#a-gateway-to-external-hosts) of the network."},
		{service, contract.ServiceNetworkKey, "the network of the Service: [networks.md](networks.md#services-of-a-network)."},
		{"NetworkChaining", contract.ChainFailureKey, "what happens at a [function](ovn4nfv.md#chains-of-functions) without a ready pod."},
		{node, contract.NodeMTUKey, "the largest packet to pods; written by the agent."},
		{node, contract.CordonedKey, "the OffloadPolicy for which the node is cordoned; written by the controller."},
		{node, contract.NodeNamespaceSubnetsKey, "the accepted [NamespaceSubnets](namespace-subnets.md); written by the controller."},
		{lease, contract.LeaderVersionKey, "the version of the leader; written by the controller."},
		{lease, contract.DPUProblemKey, "the problem of a DPU; written by its agent."},
		{lease, contract.DPUChassisKey, "the chassis of a DPU; written by its agent."},
		{lease, contract.DPUPodMTUKey, "the MTU of pods of a DPU's host; written by its agent."},
	} {
		all = append(all, Annotation{Of: ours, On: on(a.on), Key: a.key, State: Served, Note: a.note})
	}
	return all
}

func ourLabels() []Annotation {
	return []Annotation{
		{
			Of: ours, On: on(node), Key: contract.PhysicalNetworkLabel, Label: true, State: Served,
			Note: "with the name of a [physical network](physical-networks.md#where-pods-are-placed) to which the node is connected.",
		},
		{Of: ours, On: on(node), Key: contract.SetUpLabel, Label: true, State: Served, Note: "written by the agent of a [host with a DPU](dpu.md)."},
	}
}
