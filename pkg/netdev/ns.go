package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// NS is one network namespace. It is safe for concurrent use.
type NS struct {
	handle *netlink.Handle
	ns     netns.NsHandle
	own    bool // the process's own namespace: no thread has to enter it
}

// ownPath is the process's namespace as the thread that looks has it. The main thread's, /proc/self, may be another
// one: it works for others, too, and is in a pod's namespace when it does so for that.
const ownPath = "/proc/thread-self/ns/net"

// Open takes the namespace at a path such as /run/netns/x; "" is the process's own. The namespace stays alive until
// Close, whatever happens to the path.
func Open(path string) (*NS, error) {
	ns, err := netns.GetFromPath(cmp.Or(path, ownPath))
	if err != nil {
		return nil, fmt.Errorf("opening namespace %q: %w", path, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(ns), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		_ = ns.Close()
		return nil, fmt.Errorf("opening namespace %q: not a network namespace", path)
	}
	n := &NS{ns: ns, own: path == ""}
	if n.handle, err = openHandle(ns, unix.NETLINK_ROUTE); err != nil {
		_ = ns.Close()
		return nil, fmt.Errorf("entering namespace %q: %w", path, err)
	}
	return n, nil
}

// openHandle makes a handle of the library that never asks for the VFs of a PF with its link. Their statistics are a
// command of the firmware for each VF, under the kernel's lock of links, and those of 222 VFs do not fit a message.
func openHandle(ns netns.NsHandle, protocol int) (*netlink.Handle, error) {
	handle, err := netlink.NewHandleAt(ns, protocol)
	if err != nil {
		return nil, err
	}
	return handle.DisableVFInfoCollection(), nil
}

// openSocket makes what a request of ours is sent by.
func openSocket(ns netns.NsHandle, protocol int) (map[int]*nl.SocketHandle, error) {
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), protocol)
	return map[int]*nl.SocketHandle{protocol: {Socket: socket}}, err
}

// Same reports whether the path is the process's own namespace.
func Same(path string) bool {
	var a, b unix.Stat_t
	if unix.Stat(path, &a) != nil || unix.Stat(ownPath, &b) != nil {
		return false
	}
	return a.Dev == b.Dev && a.Ino == b.Ino
}

// Close gives the namespace and its sockets back.
func (n *NS) Close() error {
	return errors.Join(n.handle.Close(), n.ns.Close())
}

// Sysctl writes a value such as "2" to a path such as net/ipv4/conf/eth0/rp_filter, if it differs.
func (n *NS) Sysctl(path, value string) error {
	file := filepath.Join("/proc/sys", path)
	if rel, err := filepath.Rel("/proc/sys/net", file); err != nil || strings.HasPrefix(rel, "..") {
		return fmt.Errorf("sysctl %s: not under net", path)
	}
	if err := inside(n, func() error { return writeDifferent(file, value) }); err != nil {
		return fmt.Errorf("sysctl %s=%s: %w", path, value, err)
	}
	return nil
}

// inside runs f on a thread in the namespace; /proc/sys/net shows the namespace of the thread that looks.
func inside(n *NS, f func() error) (err error) {
	if n.own {
		return f()
	}
	OnThread(func() {
		if err = netns.Set(n.ns); err == nil {
			err = f()
		}
	})
	return err
}

// OnThread runs f on a thread that ends with it, so that f may change what belongs to a thread. It is never the main
// thread, which Go does not end: it would keep a foreign namespace, and with it each command that a container runtime
// runs in this container, for that joins the namespaces of the main thread.
func OnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			OnThread(f) // on another one, while this goroutine has the main thread
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// RouteRequest sends a request of rtnetlink in the namespace, and gives the answers of a kind.
func (n *NS) RouteRequest(request *nl.NetlinkRequest, answers uint16) ([][]byte, error) {
	sockets, err := openSocket(n.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sockets[unix.NETLINK_ROUTE].Close() }()
	request.Sockets = sockets
	return request.Execute(unix.NETLINK_ROUTE, answers)
}

func writeDifferent(file, value string) error {
	was, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(was)) == value {
		return nil
	}
	return os.WriteFile(file, []byte(value), 0)
}

// LinkLocal derives the IPv6 link-local address that belongs to a 48-bit MAC (modified EUI-64, RFC 4291); OVN's port
// security allows a port just this one.
func LinkLocal(mac [6]byte) netip.Prefix {
	addr := netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
	return netip.PrefixFrom(addr, 64)
}
