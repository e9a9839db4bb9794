package vf

import (
	"os"
	"sync"

	"github.com/jaypipes/pcidb"
)

// Names looks vendors and products up in the PCI ID database of the machine.
// The database is read when an id is new and not kept: it has tens of thousands
// of entries, and a node has a handful of ids.
type Names struct {
	files []string

	mu    sync.Mutex
	known map[[2]ID]Name
}

// NewNames takes the first file that exists. DefaultNames has the usual ones.
func NewNames(files ...string) *Names {
	return &Names{files: files, known: map[[2]ID]Name{}}
}

// DefaultNames looks where distributions put pci.ids.
func DefaultNames() *Names {
	return NewNames("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids", "/usr/share/misc/pci.ids.gz")
}

// Lookup gives what it knows of the ids. Without a database it knows nothing,
// which is no error: names are for people.
func (n *Names) Lookup(ids map[[2]ID]bool) map[[2]ID]Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	var db *pcidb.DB
	out := map[[2]ID]Name{}
	for id := range ids {
		name, ok := n.known[id]
		if !ok {
			if db == nil {
				db = n.open()
			}
			name = find(db, id)
			n.known[id] = name
		}
		out[id] = name
	}
	return out
}

func (n *Names) open() *pcidb.DB {
	for _, file := range n.files {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		if db, err := pcidb.New(pcidb.WithPath(file)); err == nil {
			return db
		}
	}
	return &pcidb.DB{}
}

func find(db *pcidb.DB, id [2]ID) Name {
	var out Name
	if v := db.Vendors[id[0].String()]; v != nil {
		out.Vendor = v.Name
	}
	if p := db.Products[id[0].String()+id[1].String()]; p != nil {
		out.Product = p.Name
	}
	return out
}
