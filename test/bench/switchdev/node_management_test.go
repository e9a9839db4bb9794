//go:build bench

package switchdev

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestManagementPort_NodeTrafficIsInHardware: a node without a DPU has its management port on a VF, and
// its own traffic with pods in hardware. The control is the internal port of OVS,
// whose traffic is not.
func TestManagementPort_NodeTrafficIsInHardware(t *testing.T) {
	tier.In(t, "bench")
	n := newPodNode(t)
	n.c.nb("lsp-add", "net", "k8s-node", "--", "lsp-set-addresses", "k8s-node", "0a:58:0a:f4:01:02 10.244.1.2")
	vfs := pf(t, n.inventory(), n.pci).VFs
	for _, v := range vfs {
		run(t, "ethtool", "-K", v.Representor.Name, "hw-tc-offload", "on")
	}
	web, own := n.pod(5, vfs[0].Name), vfs[3]
	was := n.state(own.Name)
	web.must("ADD")
	carrier, mark := n.manage()
	eventually(t, "the node reaches the pod", patience, func() bool { return pings(web.v4) })
	if flows := n.offloaded(); strings.Contains(flows, "in_port("+node.ManagementInterface+")") {
		t.Errorf("traffic of an internal port is in hardware:\n%s", flows)
	}

	carrier.Store(&node.VF{Device: own.Name, Representor: own.Representor.Name})
	mark()
	eventually(t, "the VF is the management port", patience, func() bool { return strings.HasPrefix(n.state(own.Name), node.ManagementInterface) })
	eventually(t, "the node reaches the pod by its VF, in hardware", patience, func() bool {
		if !pings(web.v4) {
			return false
		}
		flows := n.offloaded()
		return strings.Contains(flows, "in_port("+own.Representor.Name+")") && strings.Contains(flows, "in_port("+vfs[0].Representor.Name+")")
	})

	carrier.Store(nil)
	mark()
	eventually(t, "the VF is what it was", patience, func() bool { return n.state(own.Name) == was })
	eventually(t, "the node reaches the pod by an internal port again", patience, func() bool { return pings(web.v4) })
	web.must("DEL")
}

// manage keeps the management port as a node's set-up does.
func (n *podNode) manage() (carrier *atomic.Pointer[node.VF], mark func()) {
	n.Helper()
	host, err := netdev.Open("")
	ok(n, err)
	carrier = &atomic.Pointer[node.VF]{}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{contract.NodeSubnetsKey: `{"default":["10.244.1.0/24"]}`}}}
	m, err := management.New(management.NewPort(node.Config{Node: "node", Network: networkOf("10.244.0.0/16")}, node.Deps{
		Netns: node.Local{NS: host}, DB: n.db, Node: func() *corev1.Node { return object },
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Registerer: prometheus.NewRegistry(),
	}, func() (*node.VF, error) { return carrier.Load(), nil }), func() int { return 1400 })
	ok(n, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	n.Cleanup(func() { cancel(); running.Wait(); _ = host.Close() })
	return carrier, m.Mark
}

func (n *podNode) offloaded() string {
	n.Helper()
	ctl := unixctl.Client{Dir: n.dir, Daemon: "ovs-vswitchd"}
	text, err := ctl.Call(n.Context(), "dpctl/dump-flows", "--names", "type=offloaded")
	ok(n, err)
	return text
}

// pings is the node's own process.
func pings(address string) bool {
	_, err := try("ping", "-n", "-c3", "-i", "0.2", "-W1", address)
	return err == nil
}
