package cni

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// onNetworks gives default/web two interfaces, each with a device of a resource, and what the kubelet has given the pod.
func (n *nic) onNetworks(of string, given map[string][]string) {
	entry := func(i int) string {
		return strings.Replace(fmt.Sprintf(redEntry, i, i), `{`, `{"resource":"`+of+`",`, 1)
	}
	pod := podOf("red,red", map[string]string{"default/red": entry(1), "default/red/1": entry(2)})
	limits := corev1.ResourceList{}
	for name, ids := range given {
		limits[corev1.ResourceName(name)] = *resource.NewQuantity(int64(len(ids)), resource.DecimalSI)
	}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}
	n.given = given
	n.putPod(web, pod)
}

// devices are the VFs of default/web's interfaces in a namespace, "" for a veth.
func (n *nic) devices(path string) map[string]string {
	pod, err := n.net.Open(path)
	must(n.t, err)
	links, err := pod.Links()
	must(n.t, err)
	out := map[string]string{}
	for _, l := range links {
		if l.Name != "lo" {
			out[l.Name] = l.Parent
		}
	}
	return out
}

func TestAdd_VFForEachNetwork(t *testing.T) {
	n := newNIC(t)
	n.srv.cfg.Native = true
	n.onNetworks("example.com/red", map[string][]string{"example.com/red": {vf0, vf1}})
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	got := n.devices("/ns/a")
	if got["eth0"] != "" || got["net1"] != vf0 || got["net2"] != vf1 || len(got) != 3 {
		t.Errorf("devices %v", got)
	}
	for i, key := range []string{"default/red", "default/red/1"} {
		rep, err := n.host.Link(fmt.Sprintf("rep%d", i))
		if port, ok := find(n.db, web.On(key)); err != nil || !ok || port.Link != rep.Name || !rep.Up || rep.MTU != 1300 {
			t.Errorf("port of %s is %+v, representor %+v, %v", key, port, rep, err)
		}
	}
	n.mustDo(addWeb(sandboxA, "/ns/a")) // again: each keeps its device
	check := addWeb(sandboxA, "/ns/a")
	check.Command = "CHECK"
	n.mustDo(check)
	n.putPod(web, nil)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantDetached()
	n.wantLinks()
}

// TestAdd_RDMAAndVFIOForNetworks: an interface on a further network has the RDMA device of its VF. For a VF that a virtual
// machine or DPDK uses, the port and the MAC are those of its network, and the pod has no netdev.
func TestAdd_RDMAAndVFIOForNetworks(t *testing.T) {
	n := newNIC(t)
	n.srv.cfg.Native = true
	n.net.RemoveDevice(vf1)
	n.net.AddLink("", netdev.Link{Name: "rep1", MTU: 1500})
	n.inv.PFs[0].VFs[1].Driver = "vfio-pci"
	n.onNetworks("example.com/red", map[string][]string{"example.com/red": {vf0, vf1}})
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if in := n.net.RDMAIn("mlx5_2"); in != "/ns/a" {
		t.Errorf("the RDMA device is in %q", in)
	}
	if got := n.devices("/ns/a"); got["net1"] != vf0 || len(got) != 2 {
		t.Errorf("devices %v", got)
	}
	if mac := n.net.VFMAC("p0", 1); mac.String() != "0a:58:0a:09:00:02" {
		t.Errorf("on the PF's side, the MAC of the device with VFIO is %s", mac)
	}
	n.db.edit(web.On("default/red/1"), func(i *vswitch.Interface) {
		if i.Name != "rep1" || i.ExternalIDs["vf-is-vfio"] != "true" || i.ExternalIDs["k8s.ovn.org/network"] != "red-network" {
			t.Errorf("port %s, external_ids %v", i.Name, i.ExternalIDs)
		}
	})
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	if in := n.net.RDMAIn("mlx5_2"); in != "" {
		t.Errorf("after DEL, the RDMA device is in %q", in)
	}
}

// TestAdd_DevicesOfOneResource: the default network has a part in them only where the pod asks for more than its further
// networks need.
func TestAdd_DevicesOfOneResource(t *testing.T) {
	n := newNIC(t)
	n.srv.cfg.Native = true
	n.onNetworks(vfPool, map[string][]string{vfPool: {vf0, vf1}})
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if got := n.devices("/ns/a"); got["eth0"] != "" || got["net1"] != vf0 || got["net2"] != vf1 {
		t.Errorf("two devices for three interfaces: %v", got)
	}
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantDetached()

	n.onNetworks(vfPool, map[string][]string{vfPool: {vf0, vf1}})
	pod := n.pods[web].DeepCopy()
	pod.Annotations["k8s.v1.cni.cncf.io/networks"] = "red"
	pod.Annotations["k8s.ovn.org/pod-networks"] = strings.Replace(pod.Annotations["k8s.ovn.org/pod-networks"], "default/red/1", "gone", 1)
	pod.Annotations["k8s.ovn.org/pod-networks"] = strings.Replace(pod.Annotations["k8s.ovn.org/pod-networks"], `"gone":{"resource":"`+vfPool+`",`, `"gone":{`, 1)
	n.putPod(web, pod)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if got := n.devices("/ns/a"); got["eth0"] != vf0 || got["net1"] != vf1 || len(got) != 2 {
		t.Errorf("two devices for two interfaces: %v", got)
	}
}

func TestAdd_NetworkWithoutItsDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		given map[string][]string
		want  string
	}{
		"none asked for": {nil, "network default/red needs a device of example.com/red, and pod Pod/default/web asks for none: add example.com/red to the limits"},
		"one of two":     {map[string][]string{"example.com/red": {vf0}}, vf0 + " is held by pod default/web"},
	} {
		n := newNIC(t)
		n.srv.cfg.Native = true
		n.onNetworks("example.com/red", tc.given)
		if _, err := n.do(addWeb(sandboxA, "/ns/a")); codeOf(err) != CodeDevice || !contains(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		n.wantDetached()
		n.wantLinks()
	}
}

// TestAdd_MultusNamesDeviceOfNetwork: and the kubelet has to confirm it.
func TestAdd_MultusNamesDeviceOfNetwork(t *testing.T) {
	n := newNIC(t)
	n.onNetworks("example.com/red", map[string][]string{"example.com/red": {vf0, vf1}})
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	net1 := byMultus("net1", "default/red")
	net1.Conf.DeviceID = vf1
	n.mustDo(net1)
	if got := n.devices("/ns/a"); got["eth0"] != "" || got["net1"] != vf1 {
		t.Errorf("devices %v", got)
	}
	net2 := byMultus("net2", "default/red")
	net2.Conf.RuntimeConfig.DeviceID = "0000:03:00.7"
	if _, err := n.do(net2); codeOf(err) != CodeDevice || !contains(err, "the kubelet has not given it") {
		t.Errorf("a device of others: %v", err)
	}
	for _, ifName := range []string{"net1", "eth0"} {
		del := byMultus(ifName, "default/red")
		del.Command = "DEL"
		n.mustDo(del)
	}
	n.wantDetached()
}

// TestSweep_GivesNetworksTheirDevicesBack: as after a reset of the NIC.
func TestSweep_GivesNetworksTheirDevicesBack(t *testing.T) {
	n := newNIC(t)
	n.srv.cfg.Native = true
	n.onNetworks("example.com/red", map[string][]string{"example.com/red": {vf0, vf1}})
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	for i, device := range []string{vf0, vf1} {
		n.net.RemoveDevice(device)
		must(t, n.host.DeleteLink(fmt.Sprintf("rep%d", i)))
	}
	n.plugIn()
	must(t, n.srv.Sweep(t.Context()))
	if got := n.devices("/ns/a"); got["net1"] != vf0 || got["net2"] != vf1 {
		t.Errorf("devices %v", got)
	}
	claims := n.led.Where(func(c ledger.Claim) bool { return c.Phase == ledger.Attached && c.MTU == 1300 })
	if !slices.ContainsFunc(claims, func(c ledger.Claim) bool { return c.PodNetwork == "default/red/1" && c.Device == vf1 }) || len(claims) != 2 {
		t.Errorf("claims %+v", claims)
	}
}
