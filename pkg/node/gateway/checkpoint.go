package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/device"
)

// Checkpoint is what the NIC was before the bridge took it over, and so what
// the bridge has to be. It follows an administrator's changes of the bridge.
type Checkpoint struct {
	device.Identity
	Bridge    string         `json:"bridge"`
	MAC       contract.MAC   `json:"mac"`
	MTU       int            `json:"mtu"`
	Addresses []netip.Prefix `json:"addresses"`
	// Routes bear no link name.
	Routes []netdev.Route `json:"routes"`
	// Sysctls are the NIC's values to restore.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Baseline names the probes that succeeded before the first change.
	Baseline []string `json:"baseline,omitempty"`
	// Verified says that they did so afterwards, too: no rollback any more.
	Verified bool `json:"verified"`
	// VF is nil as long as the bridge's own link is all that has the addresses.
	VF *CheckpointVF `json:"vf,omitempty"`
	// Trial names the probes that succeeded before the addresses moved to the VF,
	// until they have afterwards, too.
	Trial []string `json:"trial,omitempty"`
	LastPlace
}

// LastPlace is where and when all of the checkpoint was last in place.
type LastPlace struct {
	// Index is that of the link, the bridge's or the VF's. A link with another index is a new one, and has lost its
	// addresses for this reason.
	Index int `json:"index"`
	// Boot is the id of the host's boot; former versions wrote none.
	Boot string `json:"boot,omitempty"`
	// Inherited are families of which the host has not given the NIC an address in this boot.
	Inherited []contract.Family `json:"inherited,omitempty"`
}

func (p LastPlace) equal(o LastPlace) bool {
	return p.Index == o.Index && p.Boot == o.Boot && slices.Equal(p.Inherited, o.Inherited)
}

// advertised says that routes of the NIC came by advertisements of routers.
func (c Checkpoint) advertised() bool {
	return slices.ContainsFunc(c.Routes, func(r netdev.Route) bool { return r.Protocol == node.ProtocolPermanent })
}

func (c Checkpoint) clone() Checkpoint {
	c.Addresses = slices.Clone(c.Addresses)
	c.Routes = slices.Clone(c.Routes)
	if c.VF != nil {
		vf := *c.VF
		c.VF = &vf
	}
	return c
}

func (c Checkpoint) equal(o Checkpoint) bool {
	return c.Equal(o.Identity) && c.MTU == o.MTU && c.LastPlace.equal(o.LastPlace) && c.Verified == o.Verified &&
		c.VF.equal(o.VF) && slices.Equal(c.Trial, o.Trial) && slices.Equal(c.Addresses, o.Addresses) && slices.EqualFunc(c.Routes, o.Routes, netdev.Route.Equal)
}

// loadCheckpoint gives nil when there is none. Former versions wrote down routes of routing daemons, too.
func loadCheckpoint(path string) (*Checkpoint, error) {
	var c Checkpoint
	if found, err := durable.Load(path, &c); err != nil || !found {
		return nil, err
	}
	c.Routes = slices.DeleteFunc(c.Routes, func(r netdev.Route) bool { return !node.IsConfigured(r) })
	return &c, nil
}

func removeCheckpoint(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing checkpoint: %w", err)
	}
	return nil
}
