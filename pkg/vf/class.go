package vf

// Class has the limits of a kind of NIC that its driver does not tell: they decide
// whether OVN's pipeline runs in the NIC.
type Class struct {
	// Family is the vendor's name for the kind, "" for an unknown kind.
	Family string `json:"family,omitempty"`
	// DPU says that the card has a computer of its own.
	DPU bool `json:"dpu,omitempty"`
	// Conntrack is needed for every flow of OVN that has an ACL or a service,
	// Rewrite for every one that is routed, Encap for those between nodes.
	Conntrack bool `json:"conntrack"`
	Rewrite   bool `json:"rewrite"`
	Encap     bool `json:"encap"`
	// Limit says in words what keeps OVN's flows out of the NIC.
	Limit string `json:"limit,omitempty"`
}

const (
	nvidia   = ID(0x15b3)
	intel    = ID(0x8086)
	broadcom = ID(0x14e4)
	marvell  = ID(0x177d)
	amd      = ID(0x1dd8)
	redhat   = ID(0x1af4)
)

const (
	noConntrack = "conntrack is not offloaded"
	oneAction   = "one action per rule and no conntrack: plain forwarding only"
	noSwitch    = "no switchdev mode"
	notKernel   = "its eswitch is not reached through kernel TC"
	unknown     = "unknown"
	unproven    = "conntrack offload is recent and limited"
)

// classOf goes by the PF: the device id of a VF is shared by six families.
func classOf(vendor, product ID, driver string) Class {
	if driver == "swsim" { // the bench's NIC sits on the ids of whatever QEMU emulates
		return full("swsim")
	}
	switch vendor {
	case nvidia:
		return nvidiaClass(product)
	case intel:
		return intelClass(product)
	case broadcom:
		return Class{Family: "NetXtreme-C/E", Rewrite: true, Encap: true, Limit: unproven}
	case marvell:
		return Class{Family: "Octeon", DPU: true, Limit: notKernel}
	case amd:
		return Class{Family: "Pensando", DPU: true, Limit: notKernel}
	case redhat:
		return Class{Family: "virtio", Limit: noSwitch}
	}
	return Class{Limit: unknown}
}

func nvidiaClass(product ID) Class {
	switch product {
	case 0x1013, 0x1015:
		return Class{Family: "ConnectX-4", Rewrite: true, Encap: true, Limit: noConntrack}
	case 0x1017, 0x1019:
		return full("ConnectX-5")
	case 0x101b:
		return full("ConnectX-6")
	case 0x101d:
		return full("ConnectX-6 Dx")
	case 0x101f:
		return full("ConnectX-6 Lx")
	case 0x1021:
		return full("ConnectX-7")
	case 0x1023:
		return full("ConnectX-8")
	case 0x1025:
		return full("ConnectX-9")
	case 0xa2d6:
		return dpu("BlueField-2")
	case 0xa2dc:
		return dpu("BlueField-3")
	}
	return Class{Limit: unknown}
}

func intelClass(product ID) Class {
	switch product {
	case 0x1591, 0x1592, 0x1593, 0x1599, 0x159b:
		return Class{Family: "E810", Limit: oneAction}
	case 0x188a, 0x124c, 0x124d:
		return Class{Family: "E823", Limit: oneAction}
	case 0x579c, 0x579d, 0x579e:
		return Class{Family: "E825C", Limit: oneAction}
	case 0x12d2, 0x12d3, 0x1249, 0x124a:
		return Class{Family: "E830", Limit: oneAction}
	case 0x1572, 0x1583, 0x158a, 0x158b:
		return Class{Family: "X710", Limit: noSwitch}
	case 0x10c9:
		return Class{Family: "82576", Limit: noSwitch}
	}
	return Class{Limit: unknown}
}

func full(family string) Class {
	return Class{Family: family, Conntrack: true, Rewrite: true, Encap: true}
}

func dpu(family string) Class {
	c := full(family)
	c.DPU = true
	return c
}
