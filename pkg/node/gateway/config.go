package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// DatapathSystem is OVS in the kernel, DatapathUserspace in ovs-vswitchd.
const (
	DatapathSystem    = "system"
	DatapathUserspace = "netdev"
)

// Config is what an administrator decides about a node.
type Config struct {
	node.Config
	// Remote is the Southbound database as ovn-controller takes it.
	Remote string
	// GatewayInterface is a NIC, a bridge's port or a bridge; "" is the
	// interface of the default route.
	GatewayInterface string
	// SecondInterface is that of a second external bridge; "": there is none.
	SecondInterface string
	// NextHops are the routers beyond the uplink, of one family or of both; a family without one has those of the default
	// route at the gateway bridge.
	NextHops []netip.Addr
	// EncapNetwork has the node's address that tunnels end at; invalid: the node's first address.
	EncapNetwork netip.Prefix
	Datapath     string
	// MTU of pods; 0 derives it from the interface with the encapsulation address.
	MTU int
	// Checkpoint is the file that holds the NIC's original state.
	Checkpoint string
	// Boot is the id of the host's boot; "": not known, and the checkpoint counts as of this one.
	Boot string
	// SecondaryOnly leaves the node's interfaces alone: another CNI plugin has the default network.
	SecondaryOnly bool

	second bool
}

// ofSecond is the Config of the second external bridge, which is taken over, kept
// and given back as the gateway bridge is, with rows and a checkpoint of its own.
func (c Config) ofSecond() Config {
	c.second = true
	c.GatewayInterface, c.SecondInterface, c.NextHops = c.SecondInterface, "", nil
	c.Checkpoint = strings.TrimSuffix(c.Checkpoint, ".json") + "-exgw.json"
	return c
}

// Defaults leaves Node, Network and Remote to be set.
func Defaults() Config {
	return Config{
		Datapath: DatapathSystem, Checkpoint: "/var/lib/ovn-offload/node.json",
		Config: node.Config{Zone: contract.Zone{MasqueradeSubnets: ipam.Defaults().Masquerade}},
	}
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	switch {
	case c.Node == "":
		return errors.New("node: no node name is configured")
	case len(c.Network.Subnets) == 0:
		return errors.New("node: no cluster subnet is configured")
	case c.Remote == "":
		return errors.New("node: no Southbound database is configured")
	case c.Datapath != DatapathSystem && c.Datapath != DatapathUserspace:
		return fmt.Errorf("node: datapath %q is neither %q nor %q", c.Datapath, DatapathSystem, DatapathUserspace)
	case slices.ContainsFunc(c.NextHops, func(hop netip.Addr) bool { return !hop.IsValid() || hop.Zone() != "" || hop.Is4In6() }):
		return fmt.Errorf("node: next hops %s are not IPv4 and IPv6 addresses without a zone", c.NextHops)
	case c.Checkpoint == "":
		return errors.New("node: no checkpoint file is configured")
	}
	return nil
}
