package vf

import (
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Names looks vendors and products up in the PCI id database of the host.
// The database is read when an id is new and not kept: the database has tens of thousands
// of entries, and a node has a handful of ids.
type Names struct {
	read func(ids ...[2]uint16) []netdev.PCIName

	mu    sync.Mutex
	found map[[2]ID]netdev.PCIName
}

// NewNames takes a reader of the database, such as netdev.PCINames.
func NewNames(read func(ids ...[2]uint16) []netdev.PCIName) *Names {
	return &Names{read: read, found: map[[2]ID]netdev.PCIName{}}
}

// Lookup gives the names of the ids. Without a database there are no names, which is
// no error: names are for people.
func (n *Names) Lookup(ids map[[2]ID]bool) map[[2]ID]netdev.PCIName {
	n.mu.Lock()
	defer n.mu.Unlock()
	var unknown [][2]uint16
	for id := range ids {
		if _, ok := n.found[id]; !ok {
			unknown = append(unknown, [2]uint16{uint16(id[0]), uint16(id[1])})
		}
	}
	if len(unknown) > 0 {
		for i, name := range n.read(unknown...) {
			n.found[[2]ID{ID(unknown[i][0]), ID(unknown[i][1])}] = name
		}
	}
	out := map[[2]ID]netdev.PCIName{}
	for id := range ids {
		out[id] = n.found[id]
	}
	return out
}
