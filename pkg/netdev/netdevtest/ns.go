// Package netdevtest gives tests real network namespaces of their own, and a kernel in memory.
//
// Place in the data flow: tests of pkg/netdev, pkg/cni and pkg/node -> NewNS -> netdev.Open. A namespace has no name and
// no mount. It lives as long as the test holds it or a process runs in it, so a killed test leaves nothing.
//
// Fake has the methods of netdev.NS and netdev.Devices. One table of tests in pkg/netdev runs on both.
package netdevtest

import (
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// NewNS makes an empty namespace and gives a path to it, good in this process
// until the test ends. Without root the test is skipped.
func NewNS(t testing.TB) (path string) {
	t.Helper()
	path, remove := NewRemovableNS(t)
	t.Cleanup(remove)
	return path
}

// Inside runs f on a thread in a namespace; sockets and processes that f makes are there.
func Inside(path string, f func() error) (err error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	netdev.OnThread(func() {
		if err = netns.Set(ns); err == nil {
			err = f()
		}
	})
	return err
}

// Handle speaks netlink in a namespace, for what pkg/netdev does not do.
func Handle(t testing.TB, path string) *netlink.Handle {
	t.Helper()
	fd, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fd.Close() }()
	handle, err := netlink.NewHandleAt(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = handle.Close() })
	return handle
}

// NewRemovableNS is NewNS for tests in which the namespace goes away earlier:
// after remove the path leads nowhere.
func NewRemovableNS(t testing.TB) (path string, remove func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	var file *os.File
	var err error
	netdev.OnThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd()), func() { _ = file.Close() }
}
