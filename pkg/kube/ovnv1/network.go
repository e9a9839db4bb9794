package ovnv1

// Topology is the shape of a network.
type Topology string

// The topologies.
const (
	TopologyLayer2   Topology = "Layer2"
	TopologyLayer3   Topology = "Layer3"
	TopologyLocalnet Topology = "Localnet"
)

// Role is a network's part in its pods.
type Role string

// The roles.
const (
	RolePrimary   Role = "Primary"
	RoleSecondary Role = "Secondary"
)

// CIDR is a subnet in CIDR notation.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="CIDR is invalid"
type CIDR string

// DualStackCIDRs are a subnet of each address family.
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=2
// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !isCIDR(self[0]) || !isCIDR(self[1]) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two CIDRs must be of different address families"
type DualStackCIDRs []CIDR

// IP is an IP address.
//
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="IP is invalid"
type IP string

// DualStackIPs are an address of each family.
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=2
// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !isIP(self[0]) || !isIP(self[1]) || ip(self[0]).family() != ip(self[1]).family()",message="two IPs must be of different address families"
type DualStackIPs []IP

// Layer3 describes a network with a subnet for each node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.joinSubnets) || self.role == 'Primary'",message="joinSubnets is only supported for primary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu >= 1280 || !self.subnets.exists(s, isCIDR(s.cidr) && cidr(s.cidr).ip().family() == 6)",message="mtu must be 1280 or greater when there is an IPv6 subnet"
// +kubebuilder:validation:XValidation:rule="self.role != 'Secondary' || size(self.subnets) <= 2",message="a secondary network has at most two subnets"
// +kubebuilder:validation:XValidation:rule="self.role != 'Secondary' || size(self.subnets) != 2 || !isCIDR(self.subnets[0].cidr) || !isCIDR(self.subnets[1].cidr) || cidr(self.subnets[0].cidr).ip().family() != cidr(self.subnets[1].cidr).ip().family()",message="two subnets of a secondary network must be of different address families"
// +kubebuilder:validation:XValidation:rule="size(self.subnets) == 1 || self.subnets.all(s, isCIDR(s.cidr) && self.subnets.exists_one(t, cidr(s.cidr).containsCIDR(t.cidr)))",message="subnets must not overlap"
// +kubebuilder:validation:XValidation:rule="[4, 6].all(f, !self.subnets.exists(s, isCIDR(s.cidr) && cidr(s.cidr).ip().family() == f) || self.subnets.filter(s, isCIDR(s.cidr) && cidr(s.cidr).ip().family() == f).map(s, has(s.hostSubnet) ? s.hostSubnet : 0).min() == self.subnets.filter(s, isCIDR(s.cidr) && cidr(s.cidr).ip().family() == f).map(s, has(s.hostSubnet) ? s.hostSubnet : 0).max())",message="subnets of one address family must have the same hostSubnet"
// +kubebuilder:validation:XValidation:rule="self.role == oldSelf.role",message="role is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.mtu) == has(oldSelf.mtu) && (!has(self.mtu) || self.mtu == oldSelf.mtu)",message="mtu is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.joinSubnets) == has(oldSelf.joinSubnets) && (!has(self.joinSubnets) || self.joinSubnets == oldSelf.joinSubnets)",message="joinSubnets is immutable"
// +kubebuilder:validation:XValidation:rule="self.role != 'Secondary' || self.subnets == oldSelf.subnets",message="subnets of a secondary network are immutable"
// +kubebuilder:validation:XValidation:rule="oldSelf.subnets.all(o, self.subnets.exists(s, s.cidr == o.cidr && has(s.hostSubnet) == has(o.hostSubnet) && (!has(s.hostSubnet) || s.hostSubnet == o.hostSubnet)))",message="subnets can be added, but not be removed or changed"
type Layer3 struct {
	// role is Primary or Secondary. A primary network is the network of all pods of its namespaces. A secondary network is a
	// further interface of the pods that ask for it in the annotation k8s.v1.cni.cncf.io/networks.
	//
	// +kubebuilder:validation:Enum=Primary;Secondary
	Role Role `json:"role"`

	// mtu is the MTU of the pods' interfaces. The default value is the cluster's MTU.
	//
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65536
	MTU int32 `json:"mtu,omitempty"`

	// subnets have the addresses of the pods. Each node gets a part. A primary network can have several subnets of one
	// address family, and subnets can be added later. A secondary network has at most one subnet of each family.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=400
	Subnets []Layer3Subnet `json:"subnets"`

	// joinSubnets connect the routers of a primary network. The default value is 100.65.0.0/16 and fd99::/64.
	JoinSubnets DualStackCIDRs `json:"joinSubnets,omitempty"`
}

// Layer3Subnet is a subnet from which each node gets a part.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hostSubnet) || !isCIDR(self.cidr) || self.hostSubnet > cidr(self.cidr).prefixLength()",message="hostSubnet must be longer than the prefix of cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.hostSubnet) || !isCIDR(self.cidr) || cidr(self.cidr).ip().family() != 4 || self.hostSubnet < 32",message="hostSubnet must be less than 32 for an IPv4 cidr"
type Layer3Subnet struct {
	// cidr is the subnet, such as 10.50.0.0/16.
	CIDR CIDR `json:"cidr"`

	// hostSubnet is the prefix length of a node's part. The default value is 24 for IPv4 and 64 for IPv6.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=127
	HostSubnet int32 `json:"hostSubnet,omitempty"`
}

// Layer2 describes a network with one switch for all nodes.
//
// +kubebuilder:validation:XValidation:rule="(has(self.ipam) && has(self.ipam.mode) && self.ipam.mode == 'Disabled') || has(self.subnets)",message="subnets is required unless ipam.mode is Disabled"
// +kubebuilder:validation:XValidation:rule="!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode != 'Disabled' || !has(self.subnets)",message="subnets is forbidden when ipam.mode is Disabled"
// +kubebuilder:validation:XValidation:rule="!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode != 'Disabled' || self.role == 'Secondary'",message="ipam.mode Disabled is only supported for secondary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.joinSubnets) || self.role == 'Primary'",message="joinSubnets is only supported for primary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, isCIDR(s) && cidr(s).ip().family() == 6)",message="mtu must be 1280 or greater when there is an IPv6 subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultGatewayIPs) || self.role == 'Primary'",message="defaultGatewayIPs is only supported for primary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultGatewayIPs) || (has(self.subnets) && self.defaultGatewayIPs.all(a, self.subnets.exists(s, cidr(s).containsIP(a))))",message="defaultGatewayIPs must be in subnets"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultGatewayIPs) || (has(self.subnets) && size(self.defaultGatewayIPs) == size(self.subnets))",message="defaultGatewayIPs must have an address for each address family"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultGatewayIPs) || !has(self.infrastructureSubnets) || self.defaultGatewayIPs.all(a, self.infrastructureSubnets.exists(s, cidr(s).containsIP(a)))",message="defaultGatewayIPs must be in infrastructureSubnets"
// +kubebuilder:validation:XValidation:rule="!has(self.reservedSubnets) || self.role == 'Primary'",message="reservedSubnets is only supported for primary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.reservedSubnets) || (has(self.subnets) && self.reservedSubnets.all(r, self.subnets.exists(s, cidr(s).containsCIDR(r))))",message="reservedSubnets must be parts of subnets"
// +kubebuilder:validation:XValidation:rule="!has(self.reservedSubnets) || self.reservedSubnets.all(s, isCIDR(s) && cidr(s) == cidr(s).masked())",message="reservedSubnets must have no host bits"
// +kubebuilder:validation:XValidation:rule="!has(self.infrastructureSubnets) || self.role == 'Primary'",message="infrastructureSubnets is only supported for primary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.infrastructureSubnets) || (has(self.subnets) && self.infrastructureSubnets.all(i, self.subnets.exists(s, cidr(s).containsCIDR(i))))",message="infrastructureSubnets must be parts of subnets"
// +kubebuilder:validation:XValidation:rule="!has(self.infrastructureSubnets) || self.infrastructureSubnets.all(s, isCIDR(s) && cidr(s) == cidr(s).masked())",message="infrastructureSubnets must have no host bits"
// +kubebuilder:validation:XValidation:rule="!has(self.infrastructureSubnets) || !has(self.reservedSubnets) || self.infrastructureSubnets.all(i, !self.reservedSubnets.exists(r, cidr(i).containsCIDR(r) || cidr(r).containsCIDR(i)))",message="infrastructureSubnets and reservedSubnets must not overlap"
type Layer2 struct {
	// role is Primary or Secondary. A primary network is the network of all pods of its namespaces. A secondary network is a
	// further interface of the pods that ask for it in the annotation k8s.v1.cni.cncf.io/networks.
	//
	// +kubebuilder:validation:Enum=Primary;Secondary
	Role Role `json:"role"`

	// mtu is the MTU of the pods' interfaces. The default value is the cluster's MTU.
	//
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65536
	MTU int32 `json:"mtu,omitempty"`

	// subnets have the addresses of the pods: at most one subnet of each address family.
	Subnets DualStackCIDRs `json:"subnets,omitempty"`

	// reservedSubnets are parts of subnets whose addresses pods get only on request.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=25
	ReservedSubnets []CIDR `json:"reservedSubnets,omitempty"`

	// infrastructureSubnets are parts of subnets for the gateway and the management addresses. Pods never get these addresses.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	InfrastructureSubnets []CIDR `json:"infrastructureSubnets,omitempty"`

	// defaultGatewayIPs are the addresses of the gateway, one for each address family. The default value is the first address
	// of each subnet.
	DefaultGatewayIPs DualStackIPs `json:"defaultGatewayIPs,omitempty"`

	// joinSubnets connect the routers of a primary network. The default value is 100.65.0.0/16 and fd99::/64.
	JoinSubnets DualStackCIDRs `json:"joinSubnets,omitempty"`

	// ipam says how pods get addresses.
	IPAM *IPAM `json:"ipam,omitempty"`
}

// Localnet describes a network with a port to a physical network.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode == 'Enabled' ? has(self.subnets) : !has(self.subnets)",message="subnets is required unless ipam.mode is Disabled, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.excludeSubnets) || has(self.subnets)",message="excludeSubnets needs subnets"
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || !self.subnets.exists(s, isCIDR(s) && cidr(s).ip().family() == 6)",message="mtu must be 1280 or greater when there is an IPv6 subnet"
type Localnet struct {
	// role is Secondary: the network is a further interface of the pods that ask for it in the annotation
	// k8s.v1.cni.cncf.io/networks.
	//
	// +kubebuilder:validation:Enum=Secondary
	Role Role `json:"role"`

	// physicalNetworkName is the name of the physical network in the bridge mappings of the nodes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^,:]+$')",message="physicalNetworkName must not contain a comma or a colon"
	PhysicalNetworkName string `json:"physicalNetworkName"`

	// subnets have the addresses of the pods: at most one subnet of each address family.
	Subnets DualStackCIDRs `json:"subnets,omitempty"`

	// excludeSubnets are parts of subnets whose addresses pods never get.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=25
	ExcludeSubnets []CIDR `json:"excludeSubnets,omitempty"`

	// ipam says how pods get addresses.
	IPAM *IPAM `json:"ipam,omitempty"`

	// mtu is the MTU of the pods' interfaces. The default value is the cluster's MTU.
	//
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65536
	MTU int32 `json:"mtu,omitempty"`

	// vlan is the VLAN of the network. If this field is not set, packets have no tag.
	VLAN *VLAN `json:"vlan,omitempty"`
}

// VLAN is how a network uses VLAN tags.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Access' ? has(self.access) : !has(self.access)",message="access is required when mode is Access, and forbidden otherwise"
type VLAN struct {
	// mode is Access: all packets of the network have one tag.
	//
	// +kubebuilder:validation:Enum=Access
	Mode VLANMode `json:"mode"`

	// access has the tag of mode Access.
	Access *AccessVLAN `json:"access,omitempty"`
}

// VLANMode is a way to use VLAN tags.
type VLANMode string

// VLANAccess is the only mode.
const VLANAccess VLANMode = "Access"

// AccessVLAN has the tag of all packets of a network.
type AccessVLAN struct {
	// id is the VLAN ID.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	ID int32 `json:"id"`
}

// IPAM says how pods get addresses.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.lifecycle) || self.lifecycle != 'Persistent' || !has(self.mode) || self.mode == 'Enabled'",message="lifecycle Persistent is only supported when ipam.mode is Enabled"
type IPAM struct {
	// mode is Enabled or Disabled. Without IPAM, pods have a MAC address only, and no protection against other addresses. The
	// default value is Enabled.
	//
	// +kubebuilder:validation:Enum=Enabled;Disabled
	Mode IPAMMode `json:"mode,omitempty"`

	// lifecycle Persistent keeps the addresses that an IPAMClaim has when its pod ends.
	//
	// +kubebuilder:validation:Enum=Persistent
	Lifecycle IPAMLifecycle `json:"lifecycle,omitempty"`
}

// IPAMMode says whether pods get addresses.
type IPAMMode string

// The modes.
const (
	IPAMEnabled  IPAMMode = "Enabled"
	IPAMDisabled IPAMMode = "Disabled"
)

// IPAMLifecycle says how long an address is a pod's.
type IPAMLifecycle string

// IPAMPersistent keeps an address with its IPAMClaim.
const IPAMPersistent IPAMLifecycle = "Persistent"
