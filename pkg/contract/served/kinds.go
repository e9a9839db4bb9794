package served

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of object.
type Kind struct {
	// Of is the project that defines the kind.
	Of   string
	Kind string
	schema.GroupVersionResource
	State State
	// Note is a sentence for users: what is not done, or where to read on.
	Note string
}

// Kinds are all kinds of the table, in the order of the page.
func Kinds() []Kind {
	return slices.Concat(kubernetesKinds(), multusKinds(), ovnKinds(), openShiftKinds())
}

// RefusedKinds are the kinds whose objects have no effect, though their authors rely on them.
func RefusedKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return k.State != Refused })
}

// Refusal is the sentence of the Event on an object of the kind: the same for all of them, so that they are counted together.
func (k Kind) Refusal() string {
	return "ovn-offload does not serve the kind " + k.Kind + ", and the object has no effect. " + k.Note
}

func gvr(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

func kubernetesKinds() []Kind {
	const policies, gateways = "policy.networking.k8s.io", "gateway.networking.k8s.io"
	return []Kind{
		{kubernetes, "NetworkPolicy", gvr("networking.k8s.io", "v1", "networkpolicies"), Served, "[network-policy.md](network-policy.md)"},
		{kubernetes, "AdminNetworkPolicy", gvr(policies, "v1alpha1", "adminnetworkpolicies"), Served, "[network-policy.md](network-policy.md)"},
		{kubernetes, "BaselineAdminNetworkPolicy", gvr(policies, "v1alpha1", "baselineadminnetworkpolicies"), Served, "[network-policy.md](network-policy.md)"},
		{kubernetes, "ClusterNetworkPolicy", gvr(policies, "v1alpha2", "clusternetworkpolicies"), Served, "[network-policy.md](network-policy.md)"},
		{kubernetes, "Service", gvr("", "v1", "services"), Served, "[services.md](services.md)"},
		{kubernetes, "EndpointSlice", gvr("discovery.k8s.io", "v1", "endpointslices"), Served, "[services.md](services.md)"},
		{kubernetes, "Endpoints", gvr("", "v1", "endpoints"), Harmless, "Kubernetes copies it into EndpointSlices, which are served."},
		{kubernetes, "ServiceCIDR", gvr("networking.k8s.io", "v1", "servicecidrs"), Served, "[services.md](services.md)"},
		{kubernetes, "IPAddress", gvr("networking.k8s.io", "v1", "ipaddresses"), Harmless, "Kubernetes keeps its record of addresses of Services there."},
		{kubernetes, "Ingress", gvr("networking.k8s.io", "v1", "ingresses"), Harmless, "An ingress controller serves it; the network serves the controller's Service and pods."},
		{kubernetes, "Gateway", gvr(gateways, "v1", "gateways"), Harmless, "A gateway controller serves it; the network serves the controller's Service and pods."},
	}
}

func multusKinds() []Kind {
	const group = "k8s.cni.cncf.io"
	return []Kind{
		{multus, "NetworkAttachmentDefinition", gvr(group, "v1", "network-attachment-definitions"), Served, "[networks.md](networks.md)"},
		{multus, "MultiNetworkPolicy", gvr(group, "v1beta1", "multi-networkpolicies"), Served, "[multi-network-policy.md](multi-network-policy.md)"},
		{multus, "IPAMClaim", gvr(group, "v1alpha1", "ipamclaims"), Served, "[networks.md](networks.md)"},
	}
}

func ovnKinds() []Kind {
	const group = "k8s.ovn.org"
	return []Kind{
		{ovnKubernetes, "UserDefinedNetwork", gvr(group, "v1", "userdefinednetworks"), Served, "[user-defined-networks.md](user-defined-networks.md)"},
		{ovnKubernetes, "ClusterUserDefinedNetwork", gvr(group, "v1", "clusteruserdefinednetworks"), Served, "[user-defined-networks.md](user-defined-networks.md)"},
		{
			ovnKubernetes, "EgressFirewall", gvr(group, "v1", "egressfirewalls"), Refused,
			"Its Deny rules deny nothing: pods reach the hosts that it denies. Deny them with a NetworkPolicy.",
		},
		{
			ovnKubernetes, "EgressIP", gvr(group, "v1", "egressips"), Refused,
			"Packets of its pods leave with the address of the pod's node, and not with its egressIPs.",
		},
		{ovnKubernetes, "EgressQoS", gvr(group, "v1", "egressqoses"), Refused, "Packets of its pods leave without its DSCP."},
		{
			ovnKubernetes, "EgressService", gvr(group, "v1", "egressservices"), Refused,
			"Packets of the Service's pods leave with the address of the pod's node, and by the default network of the node.",
		},
		{
			ovnKubernetes, "AdminPolicyBasedExternalRoute", gvr(group, "v1", "adminpolicybasedexternalroutes"), Refused,
			"Packets of its pods leave by the gateway of the node, and not by its nextHops.",
		},
		{ovnKubernetes, "NetworkQoS", gvr(group, "v1alpha1", "networkqoses"), Refused, "Its pods have neither its DSCP nor its bandwidth."},
		{ovnKubernetes, "RouteAdvertisements", gvr(group, "v1", "routeadvertisements"), Refused, "No routes to pods are advertised by BGP."},
		{ovnKubernetes, "ClusterNetworkConnect", gvr(group, "v1", "clusternetworkconnects"), Refused, "Its networks stay isolated from each other."},
		{ovnKubernetes, "VTEP", gvr(group, "v1", "vteps"), Refused, "No tunnels of EVPN are made."},
		{ovnKubernetes, "Uplink", gvr(group, "v1alpha1", "uplinks"), Refused, "Networks leave by the gateway of the node, and not by its interfaces."},
		{ovnKubernetes, "UplinkState", gvr(group, "v1alpha1", "uplinkstates"), Harmless, "OVN-Kubernetes reports the state of an Uplink there."},
	}
}

func openShiftKinds() []Kind {
	return []Kind{
		{
			openShift, "CloudPrivateIPConfig", gvr("cloud.network.openshift.io", "v1", "cloudprivateipconfigs"), Harmless,
			"OVN-Kubernetes makes it for an EgressIP.",
		},
		{
			openShift, "DNSNameResolver", gvr("network.openshift.io", "v1alpha1", "dnsnameresolvers"), Harmless,
			"OVN-Kubernetes makes it for an EgressFirewall.",
		},
	}
}
