//go:build e2e

package world

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/ovn-offload/ovn-offload/test/testbed"
)

const (
	// Outside is the external host, which the functions for nodes take, too.
	Outside = testbed.External
	// OutsidePort is where the server of the external host serves. The ports behind it are those of OnHost.
	OutsidePort = 9090
)

// serving starts the server of the external host, once for all tests.
var serving sync.Mutex

// ServeOutside has the external host answer at OutsidePort. Its server ends with the lab: tests that run at the same
// time share it.
func ServeOutside(t *testing.T) {
	t.Helper()
	serving.Lock()
	defer serving.Unlock()
	listening := fmt.Sprintf("127.0.0.1:%d", OutsidePort)
	if _, err := OnNode(Outside, "probe", "dial", "tcp", listening); err == nil {
		return
	}
	MustOnNode(t, Outside, "sh", "-c", fmt.Sprintf("probe serve %d </dev/null >/dev/null 2>&1 &", OutsidePort))
	Eventually(t, Soon, "the server of the external host listens", func() (bool, string) {
		out, err := OnNode(Outside, "probe", "dial", "tcp", listening)
		return err == nil, out
	})
}

// RouteOutside gives the external host a route to a network by an address, until the test ends. The external host
// ignores ICMP redirects: a node sends them for the address of a service whose flows it does not have yet
// (docs/limits.md).
func RouteOutside(t *testing.T, to string, via netip.Addr) {
	t.Helper()
	MustOnNode(t, Outside, "sysctl", "-qw", "net.ipv4.conf.all.accept_redirects=0",
		"net.ipv4.conf.eth0.accept_redirects=0",
		"net.ipv6.conf.all.accept_redirects=0", "net.ipv6.conf.eth0.accept_redirects=0")
	MustOnNode(t, Outside, "ip", "route", "replace", to, "via", via.String())
	t.Cleanup(func() { OnNode(Outside, "ip", "route", "del", to) })
}
