package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Sysfs is the tree of devices: /sys, or what a test puts in its place. The
// methods take paths without a leading slash, such as class/net.
type Sysfs struct {
	Library
	tree fs.ReadLinkFS
}

// OpenSysfs takes the tree below a directory, which is /sys outside tests. It
// shows the network devices of the namespace in which that was mounted.
func OpenSysfs(root string) Sysfs {
	if absolute, err := filepath.Abs(root); err == nil {
		root = absolute
	}
	return Sysfs{libraries{root}, os.DirFS(root).(fs.ReadLinkFS)} // documented to be one
}

// NewSysfs takes a tree in memory.
func NewSysfs(tree fs.ReadLinkFS) Sysfs {
	s := Sysfs{tree: tree}
	s.Library = fakeLibrary{s}
	return s
}

// Attr reads an attribute. One that is absent, that the device does not
// support or whose device was removed meanwhile is empty, not an error: the
// kernel has a phys_switch_id for every NIC, and most answer EOPNOTSUPP.
func (s Sysfs) Attr(name string) (string, error) {
	raw, err := fs.ReadFile(s.tree, name)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// Names lists a directory in order; an absent one is empty.
func (s Sysfs) Names(dir string) ([]string, error) {
	entries, err := fs.ReadDir(s.tree, dir)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Target gives the path to which a link leads, below the same root, and ""
// where there is no link.
func (s Sysfs) Target(link string) (string, error) {
	to, err := s.tree.ReadLink(link)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading link %s: %w", link, err)
	}
	target := path.Join(path.Dir(link), to)
	if path.IsAbs(to) || !fs.ValidPath(target) {
		return "", fmt.Errorf("reading link %s: leads out of the tree, to %s", link, to)
	}
	return target, nil
}

func absent(err error) bool {
	for _, normal := range []error{fs.ErrNotExist, fs.ErrInvalid, unix.EOPNOTSUPP, unix.ENODEV, unix.ENXIO, unix.EINVAL} {
		if errors.Is(err, normal) {
			return true
		}
	}
	return false
}

// PCINetdevs says whether a PCI function is there, and which netdevs it has in
// the namespace of the tree.
func PCINetdevs(s Sysfs, address string) (present bool, names []string, err error) {
	device, err := s.Target("bus/pci/devices/" + address)
	if err != nil || device == "" {
		return false, nil, err
	}
	names, err = s.Names(device + "/net")
	return true, names, err
}
