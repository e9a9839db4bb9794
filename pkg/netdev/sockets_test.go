package netdev_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// sockets counts those of the process.
func sockets(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, file := range files {
		if to, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestOpen_MakesOneSocket: an agent opens each pod's namespace once in an ADD, and a socket enters and leaves it.
// Listing links leaves none behind.
func TestOpen_MakesOneSocket(t *testing.T) {
	path := netdevtest.NewNS(t)
	before := sockets(t)
	ns, err := netdev.Open(path)
	must(t, err)
	if made := sockets(t) - before; made != 1 {
		t.Errorf("%d sockets were made, want 1", made)
	}
	links, err := ns.Links()
	must(t, err)
	if len(links) != 1 || links[0].Name != "lo" {
		t.Errorf("links of a new namespace: %+v", links)
	}
	must(t, ns.Close())
	if left := sockets(t) - before; left != 0 {
		t.Errorf("%d sockets are left", left)
	}
}
