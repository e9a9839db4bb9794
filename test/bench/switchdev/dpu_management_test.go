//go:build bench

package switchdev

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// The host's own addresses in its pod subnet, and a service.
const (
	ownV4, ownV6 = "10.1.0.2", "fd00:1::2"
	ownMAC       = "0a:58:0a:01:00:02"
	service      = "10.96.0.10"
)

func subnetsOf(list ...string) (prefixes []netip.Prefix) {
	for _, s := range list {
		prefixes = append(prefixes, netip.MustParsePrefix(s))
	}
	return prefixes
}

func networkOf(subnets ...string) (n contract.Network) {
	for _, prefix := range subnetsOf(subnets...) {
		n.Subnets = append(n.Subnets, contract.Subnet{Prefix: prefix})
	}
	return n
}

// management is one side's half of the management port.
func (b *dpuBench) management(view *kube.NodeView, ns *netdev.NS, db node.DB, function func() (*node.VF, error)) *management.Runner {
	b.Helper()
	m, err := management.New(management.NewPort(node.Config{
		Node: dpuHost, Network: networkOf("10.1.0.0/16", "fd00:1::/48"), Zone: contract.Zone{ServiceSubnets: subnetsOf("10.96.0.0/16")},
	}, node.Deps{
		Netns: node.Local{NS: ns}, DB: db, Node: func() *corev1.Node { return view.Node(dpuHost) },
		Annotate: kube.NewWriter(apitest.Client(b.api)).AnnotateNode,
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)), Registerer: prometheus.NewRegistry(),
	}, function), func() int { return 1400 })
	ok(b, err)
	view.OnChange(m.Changed)
	return m
}

// function is what the host claims.
func (d *dpuSide) function() (*node.VF, error) {
	representor, err := d.ports.Load().Management()
	if err != nil || representor == nil {
		return nil, err
	}
	return &node.VF{Representor: representor.Name}, nil
}

func (h *hostSide) function() (*node.VF, error) {
	device := *h.carrier.Load()
	if device == "" {
		return nil, nil
	}
	v, err := h.live.VF(device)
	if err != nil {
		return nil, err
	}
	claim, err := dpu.ClaimManagement(v, "")
	return &node.VF{Device: device, Claim: claim}, err
}

// carry makes a VF the host's management port, "" none.
func (h *hostSide) carry(device string) {
	h.carrier.Store(&device)
	h.own.Mark()
}

// TestDPU_HostReachesPodsByManagementPort: the host has an interface in its pod subnet on a VF, so that
// the kubelet reaches the pods, and they the host.
func TestDPU_HostReachesPodsByManagementPort(t *testing.T) {
	tier.In(t, "bench")
	onHost(t, "TestInsideDPUManagement")
}

func TestInsideDPUManagement(t *testing.T) {
	b := newHandDPUBench(t)
	b.start()
	web, was := b.pod(8, b.device(0)), b.host.state(b.device(3))
	web.must("ADD")
	web.answers()
	if b.asks(web.v4) {
		b.Error("the host reaches a pod without a management port")
	}
	b.host.carry(b.device(3))
	b.reachesHost(web)
	link := run(b, "ip", "-d", "addr", "show", node.ManagementInterface)
	for _, want := range []string{"mtu 1400", ownMAC, ownV4 + "/24", ownV6 + "/64", "parentdev " + b.device(3)} {
		if !strings.Contains(link, want) {
			b.Errorf("%s lacks %q:\n%s", node.ManagementInterface, want, link)
		}
	}
	b.dpu.carries(b.dpu.vsctl("--bare", "--columns=name", "find", "Interface", "external_ids:iface-id=k8s-"+dpuHost), func() { b.asks(web.v4) })

	b.c.nb("lb-add", "web", service, web.v4, "--", "ls-lb-add", "s1", "web")
	eventually(b, "the host reaches a service", patience, func() bool { return b.asks(service) })

	b.dpu.stop()
	b.noFunctions()
	b.dpu.losePorts()
	b.dpu.start()
	if b.asks(web.v4) {
		b.Error("the host reaches a pod without a function")
	}
	back := b.functions()
	eventually(b, "the host reaches the pod again", patience, func() bool { return b.asks(web.v4) && b.asks(web.v6) })
	b.Logf("after the return of the functions: the host reaches its pod after %s", time.Since(back).Round(time.Millisecond))

	b.host.carry("")
	eventually(b, "the VF is what it was", patience, func() bool {
		now := b.host.state(b.device(3))
		return !strings.HasPrefix(now, node.ManagementInterface) && settings(now) == settings(was)
	})
	if b.asks(web.v4) {
		b.Error("the host reaches a pod after its management port was given back")
	}
	web.must("DEL")
}

// settings leaves out of a VF's state name and MAC, which the NIC makes up anew
// when it makes its VFs.
func settings(state string) string { return strings.Join(strings.Fields(state)[2:], " ") }

// reachesHost asks both ways in both families.
func (b *dpuBench) reachesHost(web *dpuPod) {
	b.Helper()
	for own, address := range map[string]string{ownV4: web.v4, ownV6: web.v6} {
		eventually(b, "the host reaches "+address, patience, func() bool { return b.asks(address) })
		if out, err := try(inside(web.ns, "ping", "-n", "-c1", "-W5", own)...); err != nil {
			b.Errorf("the pod does not reach the host at %s: %s", own, out)
		}
	}
}

// asks is what the kubelet does.
func (b *dpuBench) asks(address string) bool {
	_, err := try("ping", "-n", "-c1", "-W1", address)
	return err == nil
}

// managementNetwork is what the controller makes for the management port.
func (b *dpuBench) managementNetwork() {
	b.Helper()
	b.c.nb("lsp-add", "s1", "k8s-"+dpuHost, "--", "lsp-set-addresses", "k8s-"+dpuHost, fmt.Sprint(ownMAC, " ", ownV4, " ", ownV6))
	b.c.nb("lr-add", "r", "--", "lrp-add", "r", "r-s1", "0a:58:0a:01:00:01", "10.1.0.1/24", "fd00:1::1/64",
		"--", "lsp-add", "s1", "s1-r", "--", "lsp-set-type", "s1-r", "router", "--", "lsp-set-addresses", "s1-r", "router", "--", "lsp-set-options", "s1-r", "router-port=r-s1")
}
