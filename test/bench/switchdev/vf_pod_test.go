//go:build bench

package switchdev

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

func oneVF() corev1.ResourceList { return someVFs(1) }

func someVFs(n int) corev1.ResourceList {
	return corev1.ResourceList{"ovn-offload.io/vf": *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

func (n *podNode) devices() (list []string) {
	for _, v := range pf(n.T, n.inventory(), n.pci).VFs {
		list = append(list, v.Name)
	}
	return list
}

func (n *podNode) inventory() vf.Inventory {
	n.Helper()
	node, _ := openNode(n.T)
	return inventory(n.T, node)
}

// state is what an administrator sees of a VF. It looks anew, for the inventory follows by events.
func (n *podNode) state(device string) string {
	n.Helper()
	inv := n.inventory()
	_, v, ok := inv.VF(device)
	if !ok || v.Netdev == nil {
		return "not here"
	}
	return fmt.Sprintf("%s %s %d up=%t", v.Netdev.Name, v.Netdev.MAC, v.Netdev.MTU, v.Netdev.Up)
}

// TestVF_PodsReachEachOther: two pods on VFs and one on a veth reach each other. A detached VF has its former settings.
func TestVF_PodsReachEachOther(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	n := newPodNode(t)
	devices := n.devices()
	was := map[string]string{devices[0]: n.state(devices[0]), devices[1]: n.state(devices[1])}
	pods := []*vfPod{n.pod(1, devices[0]), n.pod(2, devices[1]), n.pod(3, "")}
	for _, p := range pods {
		p.must("ADD")
		p.must("CHECK")
	}
	for _, from := range pods {
		for _, to := range pods {
			if from == to {
				continue
			}
			if err := from.reaches(to); err != nil {
				t.Error(err)
			}
		}
	}
	link := run(t, inside(pods[0].ns, "ip", "-d", "link", "show", "eth0")...)
	for _, want := range []string{"mtu 1400", pods[0].mac, "parentdev " + devices[0]} {
		if !strings.Contains(link, want) {
			t.Errorf("eth0 of %s lacks %q:\n%s", pods[0].name, want, link)
		}
	}
	const offload = "tx-tcp-segmentation"
	run(t, inside(pods[0].ns, "ethtool", "-K", "eth0", offload, "off")...)
	if !strings.Contains(run(t, inside(pods[0].ns, "ethtool", "-k", "eth0")...), offload+": off") {
		t.Fatal("the pod has not changed its VF")
	}
	for _, p := range pods {
		p.must("DEL")
		p.must("DEL")
	}
	name, _, _ := strings.Cut(was[devices[0]], " ")
	if features := run(t, "ethtool", "-k", name); !strings.Contains(features, offload+": on") {
		t.Errorf("the VF keeps what its pod has set:\n%s", features)
	}
	for device, want := range was {
		if got := n.state(device); got != want {
			t.Errorf("%s is %s, and was %s", device, got, want)
		}
	}
	if ports := n.vsctl("list-ports", "br-int"); ports != "" {
		t.Errorf("ports are left: %s", ports)
	}
	if err := pods[0].reaches(pods[2]); err == nil {
		t.Error("a pod without network reaches another")
	}
}

// TestVF_ReturnsWhenNamespaceIsDeleted: the kernel returns the VF to the host before DEL does.
func TestVF_ReturnsWhenNamespaceIsDeleted(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	n := newPodNode(t)
	device := n.devices()[0]
	was := n.state(device)
	p := n.pod(1, device)
	p.must("ADD")
	run(t, "ip", "netns", "del", p.ns)
	eventually(t, "the VF is what it was", 30*time.Second, func() bool { return n.state(device) == was })
	eventually(t, "its claim ends", 30*time.Second, func() bool { return len(n.ledger.Claims()) == 0 })
	p.must("DEL")
}

// TestVF_IsAttachedAgainAfterDriverReload: the VF goes away under a pod, and the pod has its network
// again when it is back.
func TestVF_IsAttachedAgainAfterDriverReload(t *testing.T) {
	tier.In(t, "bench")
	n := newPodNode(t)
	devices := n.devices()
	a, b := n.pod(1, devices[0]), n.pod(2, devices[1])
	a.must("ADD")
	b.must("ADD")
	if err := a.reaches(b); err != nil {
		t.Fatal(err)
	}
	write(t, driver+"unbind", devices[0])
	if err := a.reaches(b); err == nil {
		t.Fatal("traffic without a VF")
	}
	if claims := n.ledger.Claims(); !slices.ContainsFunc(claims, func(c ledger.Claim) bool { return c.Device == devices[0] }) {
		t.Errorf("the claim is gone: %+v", claims)
	}
	write(t, driver+"bind", devices[0])
	back := time.Now()
	eventually(t, "the pod has its network again", 30*time.Second, func() bool { return a.reaches(b) == nil })
	t.Logf("traffic %s after the VF was back, three pings included", time.Since(back).Round(10*time.Millisecond))
	a.must("DEL")
	b.must("DEL")
}

// TestVF_TimeOfADDAndDEL measures ADD and DEL in turn, and compares nothing: it is for the
// record.
func TestVF_TimeOfADDAndDEL(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "it compares nothing")
	n := newPodNode(t)
	pods := []*vfPod{n.pod(1, ""), n.pod(2, n.devices()[0])}
	adds, dels := map[*vfPod][]time.Duration{}, map[*vfPod][]time.Duration{}
	for range 5 {
		for _, p := range pods {
			adds[p] = append(adds[p], p.must("ADD"))
			dels[p] = append(dels[p], p.must("DEL"))
		}
	}
	for _, p := range pods {
		slices.Sort(adds[p])
		slices.Sort(dels[p])
		t.Logf("device %q: ADD %s, median %s; DEL %s, median %s", p.device, adds[p][0], adds[p][2], dels[p][0], dels[p][2])
	}
}
