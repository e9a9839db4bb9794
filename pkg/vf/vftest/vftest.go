// Package vftest makes nodes out of text: a tree of sysfs with the answers that
// netlink would give, for tests of discovery, of the device plugin and of
// whatever else asks about NICs.
//
// Place in the data flow: testdata/*.txtar -> Parse -> World -> vf.Node.
//
// A section of the archive is a directory below /sys, and its lines are
//
//	vendor=0x15b3  device=0x101d      attributes, two spaces between them
//	driver -> ../../bus/pci/drivers/x  a link
//	phys_switch_id E:EOPNOTSUPP        an attribute or link that cannot be read
//
// The links in class/net, class/infiniband, bus/pci/devices and
// bus/auxiliary/devices make themselves, nested as the kernel does. Of a
// netdev, address, mtu, flags (up), carrier, master, lacp (yes, no), addresses (IP, with commas)
// and hw-tc-offload are also what netlink and ethtool say. The section devlink has lines such as
//
//	dev pci/0000:03:00.0  mode=switchdev  esw_multiport=true
//	port pci/0000:03:00.0/1  flavour=pcivf  controller=0  pf=0  number=3  external=false  netdev=eth4
//
// and the section rdma the namespace mode.
package vftest

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing/fstest"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// World is a node.
type World struct {
	Tree   fstest.MapFS
	Faults map[string]error // by path
	Kernel *netdevtest.FakeDevices
	IPs    map[string][]netip.Prefix // by link
	links  []netdev.Link
}

// Parse reads an archive.
func Parse(text []byte) (*World, error) {
	w := &World{
		Tree: fstest.MapFS{}, Faults: map[string]error{},
		Kernel: &netdevtest.FakeDevices{
			Eswitches: map[string]netdev.Eswitch{}, Params: map[string]string{}, HWTC: map[string]bool{},
		},
		IPs: map[string][]netip.Prefix{},
	}
	masters := map[string]string{}
	for _, section := range txtar.Parse(text).Files {
		if err := w.section(section, masters); err != nil {
			return nil, fmt.Errorf("%s: %w", section.Name, err)
		}
	}
	for i := range w.links {
		for _, l := range w.links {
			if l.Name == masters[w.links[i].Name] {
				w.links[i].Master = l.Index
			}
		}
	}
	return w, nil
}

// Sysfs is the tree.
func (w *World) Sysfs() netdev.Sysfs { return netdev.NewSysfs(faulty{w.Tree, w.Faults}) }

// Links lists the netdevs, as netlink would.
func (w *World) Links() ([]netdev.Link, error) { return w.links, nil }

// Addrs lists the addresses of a netdev, as netlink would.
func (w *World) Addrs(name string) ([]netip.Prefix, error) { return w.IPs[name], nil }

// AllAddrs lists the addresses of all netdevs.
func (w *World) AllAddrs() (map[int][]netip.Prefix, error) {
	all := map[int][]netip.Prefix{}
	for _, l := range w.links {
		if ips := w.IPs[l.Name]; len(ips) > 0 {
			all[l.Index] = ips
		}
	}
	return all, nil
}

// ForgetParents makes the kernel one from before 5.14.
func (w *World) ForgetParents() {
	for i := range w.links {
		w.links[i].Parent = ""
	}
}

// RemoveNetdev takes a netdev away, as when it moves to a pod.
func (w *World) RemoveNetdev(name string) {
	for file := range w.Tree {
		if strings.Contains(file, "/net/"+name+"/") || strings.HasSuffix(file, "/net/"+name) {
			delete(w.Tree, file)
		}
	}
	for i, l := range w.links {
		if l.Name == name {
			w.links = append(w.links[:i:i], w.links[i+1:]...)
			return
		}
	}
}

// Write puts the tree on a disk. What cannot be read is left out.
func (w *World) Write(root string) error {
	for name, file := range w.Tree {
		target := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(target), 0o755)
		if err == nil && file.Mode&fs.ModeSymlink != 0 {
			err = os.Symlink(string(file.Data), target)
		} else if err == nil {
			err = os.WriteFile(target, file.Data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *World) section(section txtar.File, masters map[string]string) error {
	for line := range strings.Lines(string(section.Data)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := w.line(section.Name, line); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	if !strings.HasPrefix(section.Name, "devices/") {
		return nil
	}
	return w.device(section.Name, masters)
}

func (w *World) line(section, line string) error {
	switch section {
	case "devlink":
		return w.devlink(line)
	case "rdma":
		w.Kernel.RDMAMode = line
		return nil
	}
	if name, target, ok := strings.Cut(line, " -> "); ok {
		w.link(section+"/"+name, target)
		return nil
	}
	if name, errno, broken := strings.Cut(line, " E:"); broken {
		fault, ok := map[string]error{"EOPNOTSUPP": unix.EOPNOTSUPP, "EIO": unix.EIO, "EACCES": unix.EACCES}[errno]
		if ok {
			w.Faults[section+"/"+name] = &fs.PathError{Op: "read", Path: name, Err: fault}
			return nil
		}
		return fmt.Errorf("no such error is known here: %s", errno)
	}
	for name, value := range fields(line) {
		w.Tree[section+"/"+name] = &fstest.MapFile{Data: []byte(value + "\n")}
	}
	return nil
}

func (w *World) link(name, target string) {
	w.Tree[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// device makes the links that lead to a directory of devices, and the link
// that netlink shows.
func (w *World) device(dir string, masters map[string]string) error {
	name, parent := path.Base(dir), path.Base(path.Dir(dir))
	switch {
	case parent == "net":
		w.link("class/net/"+name, "../../"+dir)
		return w.netdev(dir, name, masters)
	case parent == "infiniband":
		w.link("class/infiniband/"+name, "../../"+dir)
	case strings.Contains(name, ".sf."):
		w.link("bus/auxiliary/devices/"+name, "../../../"+dir)
	case regexp.MustCompile(`^[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\.[0-7]$`).MatchString(name):
		w.link("bus/pci/devices/"+name, "../../../"+dir)
	}
	return nil
}

func (w *World) netdev(dir, name string, masters map[string]string) error {
	attr := func(key string) string {
		if file := w.Tree[dir+"/"+key]; file != nil {
			return strings.TrimSpace(string(file.Data))
		}
		return ""
	}
	l := netdev.Link{Name: name, Index: len(w.links) + 1, Parent: path.Base(path.Dir(path.Dir(dir))), MTU: 1500, Up: attr("flags") == "up", Carrier: attr("carrier") == "1"}
	if lacp := attr("lacp"); lacp != "" {
		l.LACP = &netdev.LACP{Negotiated: lacp == "yes", Distributing: lacp == "yes"}
	}
	var err error
	if mac := attr("address"); mac != "" {
		if l.MAC, err = net.ParseMAC(mac); err != nil {
			return err
		}
	}
	if mtu := attr("mtu"); mtu != "" {
		if l.MTU, err = strconv.Atoi(mtu); err != nil {
			return err
		}
	}
	if tc := attr("hw-tc-offload"); tc != "" {
		w.Kernel.HWTC[name] = tc == "on"
	}
	if masters[name] = attr("master"); masters[name] != "" { // in sysfs two links
		w.link(dir+"/master", "../"+masters[name])
		w.link(dir+"/upper_"+masters[name], "../"+masters[name])
	}
	for text := range strings.SplitSeq(attr("addresses"), ",") {
		if text == "" {
			continue
		}
		ip, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		w.IPs[name] = append(w.IPs[name], ip)
	}
	w.links = append(w.links, l)
	return nil
}

// fields goes over name=value, two spaces between them.
func fields(line string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for field := range strings.SplitSeq(line, "  ") {
			name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
			if ok && !yield(name, value) {
				return
			}
		}
	}
}

// faulty fails at the paths in faults. A fault makes an entry exist.
type faulty struct {
	fstest.MapFS
	faults map[string]error
}

func (f faulty) ReadFile(name string) ([]byte, error) {
	if err := f.faults[name]; err != nil {
		return nil, err
	}
	return f.MapFS.ReadFile(name)
}

func (f faulty) ReadLink(name string) (string, error) {
	if err := f.faults[name]; err != nil {
		return "", err
	}
	return f.MapFS.ReadLink(name)
}

func (f faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.faults[name]; err != nil {
		return nil, err
	}
	return f.MapFS.ReadDir(name)
}
