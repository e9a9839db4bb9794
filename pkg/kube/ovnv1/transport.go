package ovnv1

// Transport carries packets between nodes; "" is Geneve.
type Transport string

// The transports besides Geneve.
const (
	TransportNoOverlay Transport = "NoOverlay"
	TransportEVPN      Transport = "EVPN"
)

// NoOverlay has the settings of a network whose pods the physical network routes.
type NoOverlay struct {
	// outboundSNAT says whether packets to external addresses get the node's address.
	//
	// +kubebuilder:validation:Enum=Enabled;Disabled
	OutboundSNAT string `json:"outboundSNAT"`

	// routing says who configures routes between nodes: the cluster (Managed) or the administrator (Unmanaged).
	//
	// +kubebuilder:validation:Enum=Managed;Unmanaged
	Routing string `json:"routing"`
}

// EVPN has the settings of a network in an EVPN fabric.
//
// +kubebuilder:validation:XValidation:rule="has(self.macVRF) || has(self.ipVRF)",message="one of macVRF and ipVRF is required"
// +kubebuilder:validation:XValidation:rule="!has(self.macVRF) || !has(self.ipVRF) || self.macVRF.vni != self.ipVRF.vni",message="macVRF and ipVRF must have different VNIs"
type EVPN struct {
	// vtep is the name of the VTEP object that has the addresses of the tunnels.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VTEP string `json:"vtep"`

	// macVRF extends a Layer2 network.
	MACVRF *VRF `json:"macVRF,omitempty"`

	// ipVRF routes a network.
	IPVRF *VRF `json:"ipVRF,omitempty"`
}

// VRF identifies a network in an EVPN fabric.
type VRF struct {
	// vni is the virtual network identifier, which must be unique in the cluster.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`

	// routeTarget is the route target for import and export, such as 65000:100. If this field is not set, the route target is
	// the number of the autonomous system and the VNI.
	RouteTarget RouteTarget `json:"routeTarget,omitempty"`
}

// RouteTarget is an administrator (number of an autonomous system, IPv4 address or *) and a number, with a colon
// between; both have six bytes together.
//
// +kubebuilder:validation:MaxLength=21
// +kubebuilder:validation:XValidation:rule="self.matches('^([*]|[0-9]+|[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+):[0-9]{1,10}$')",message="routeTarget must be a number, an IPv4 address or *, a colon and a number"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[^:]+:[0-9]{1,10}$') || int(self.split(':')[1]) <= (self.contains('.') ? 65535 : 4294967295)",message="the second number of routeTarget is too great"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]{1,10}:[0-9]{1,10}$') || int(self.split(':')[0]) <= (int(self.split(':')[1]) <= 65535 ? 4294967295 : 65535)",message="the numbers of routeTarget need more than six bytes"
// +kubebuilder:validation:XValidation:rule="!self.contains('.') || isIP(self.split(':')[0])",message="the address of routeTarget is invalid"
type RouteTarget string
