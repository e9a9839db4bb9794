package uplink

import (
	"maps"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Change is a change of mode that is asked for.
type Change struct {
	// Device is the NIC's PCI address.
	Device string `json:"device"`
	// From is the mode that an undo sets, To the one that is wanted.
	From string `json:"from"`
	To   string `json:"to"`
	// Reason names who wants the change. A change that was undone is not tried again for the same reason.
	Reason string `json:"reason"`
}

// record is what a netdev was before its NIC's mode changes.
type record struct {
	Change
	Boot      string            `json:"boot"`
	Link      netdevSettings    `json:"link"`
	Addresses []netip.Prefix    `json:"addresses,omitempty"`
	Routes    []netdev.Route    `json:"routes,omitempty"`
	Sysctls   map[string]string `json:"sysctls,omitempty"`
	// Bond has the netdev as its port, empty: none has.
	Bond string `json:"bond,omitempty"`
	// Baseline names the probes that succeeded before.
	Baseline []string `json:"baseline"`
	// Undoing is why the former mode comes back.
	Undoing string `json:"undoing,omitempty"`
}

type netdevSettings struct {
	Name    string       `json:"name"`
	MAC     contract.MAC `json:"mac,omitempty"`
	MTU     int          `json:"mtu"`
	Carrier bool         `json:"carrier"`
	// LACP says that the netdev was the port of a bond that had negotiated with the switch.
	LACP bool `json:"lacp,omitempty"`
}

// Undone is a change that cut the node off.
type Undone struct {
	Boot   string `json:"boot"`
	Reason string `json:"reason"`
	Error  string `json:"error"`
}

// checkpoint is the content of the file.
type checkpoint struct {
	Move   *record           `json:"move,omitempty"`
	Undone map[string]Undone `json:"undone,omitempty"` // by PCI address
}

func (c checkpoint) clone() checkpoint { return checkpoint{Move: c.Move, Undone: maps.Clone(c.Undone)} }
