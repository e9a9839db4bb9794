package netdev

import (
	"context"
	"os"

	"github.com/vishvananda/netns"
)

// What the tests of the package call beside its API.
var (
	Absent      = absent
	GroupSocket = groupSocket
	Inside      = inside
	ParseAck    = parseAck
	ParseCPUHit = parseCPUHit
	Uevents     = uevents
)

// FakeLibrary answers from a tree.
func FakeLibrary(tree Sysfs) Library { return fakeLibrary{tree} }

// NoNamespace is an NS that is closed.
func NoNamespace() *NS { return &NS{ns: 1 << 20} }

// ReadRouteEvents reads events of routes until the socket is closed.
func ReadRouteEvents(ctx context.Context, socket *os.File, events chan<- Event) {
	readEvents(ctx, socket, eachMessage(routeEvent), Event{Kind: Lost}, events)
}

// Handle is the namespace's.
func (n *NS) Handle() netns.NsHandle { return n.ns }

// MaxChannels is the largest number of receive channels of a link.
func (d *Devices) MaxChannels(link string) (uint32, error) {
	channels, err := d.ethtool.GetChannels(link)
	return channels.MaxRx, err
}
