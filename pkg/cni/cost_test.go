package cni

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// Netlink requests of one ADD and one DEL of a pod on a veth, with an IPv4 address and three routes. Most take the
// kernel's lock of links, which all pods of a burst and ovs-vswitchd share.
const requestsOfADD, requestsOfDEL = 22, 3

// TestAdd_CostInNetlinkRequests holds the number of requests, and that they are of rtnetlink alone.
func TestAdd_CostInNetlinkRequests(t *testing.T) {
	n := newNode(t)
	podPath, hostPath := netdevtest.NewNS(t), netdevtest.NewNS(t)
	for _, step := range []struct {
		request *Request
		most    int
	}{{addWeb(sandboxA, podPath), requestsOfADD}, {delWeb(sandboxA, podPath), requestsOfDEL}} {
		sent := netdevtest.Requests(t, hostPath, func() {
			host, err := netdev.Open("")
			if err != nil {
				t.Error(err)
				return
			}
			defer host.Close()
			n.srv = n.newServer(host, OpenNS)
			n.mustDo(step.request)
		})
		if len(sent) == 0 || len(sent) > step.most {
			t.Errorf("%s: %d netlink requests, want %d at most", step.request.Command, len(sent), step.most)
		}
		for _, r := range sent {
			if r.Protocol != unix.NETLINK_ROUTE {
				t.Errorf("%s: a request of netlink protocol %d", step.request.Command, r.Protocol)
			}
		}
	}
}
