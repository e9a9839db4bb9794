package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/attach"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

const (
	vf0       = "0000:03:00.2"
	vf1       = "0000:03:00.3"
	vfPool    = "ovn-offload.io/vf"
	otherPool = "example.com/vf"
)

// nic is a node with a NIC in switchdev mode, with two VFs.
type nic struct {
	*node
	dir   string // of the ledger
	led   *ledger.Ledger
	given map[string][]string // by the kubelet to default/web
	inv   vf.Inventory
	err   error  // of the kubelet
	use   string // that the node makes of its VFs
}

func newNIC(t testing.TB) *nic {
	t.Helper()
	n := &nic{node: newNode(t), dir: t.TempDir(), given: map[string][]string{vfPool: {vf0}}}
	n.net.AddLink("", netdev.Link{Name: "p0", Parent: "0000:03:00.0", Up: true})
	n.net.AddRDMA("", "mlx5_2")
	n.plugIn()
	must(t, n.host.SetFunctionMAC("rep0", net.HardwareAddr{2, 0, 0, 0, 0, 0x70}))
	number := uint32(0)
	n.inv = vf.Inventory{RDMA: "exclusive", PFs: []vf.PF{{
		Device: vf.Device{Name: "0000:03:00.0"}, Number: &number, Ports: []vf.Netdev{{Name: "p0"}},
		Eswitch: vf.Eswitch{Mode: vf.Switchdev, ID: "c4a2"},
		VFs: []vf.VF{
			// As it was with another pod, by which nothing is to be judged.
			{Device: vf.Device{Name: vf0, Driver: "mlx5_core"}, Index: 0, Representor: &vf.Representor{
				Netdev: vf.Netdev{Name: "rep0"}, FunctionMAC: vf.MAC{10, 88, 10, 244, 1, 9},
			}},
			{Device: vf.Device{Name: vf1, Driver: "mlx5_core"}, Index: 1, Representor: &vf.Representor{Netdev: vf.Netdev{Name: "rep1"}}},
		},
	}}}
	n.start()
	n.askFor(webUID, vfPool)
	return n
}

// plugIn puts the VFs and their representors there, as a driver does.
func (n *nic) plugIn() {
	for i, device := range []string{vf0, vf1} {
		n.net.AddLink("", netdev.Link{Name: fmt.Sprintf("vf%d", i), Parent: device, MTU: 1500, MAC: n.mac(i), AltNames: []string{fmt.Sprintf("enp3s0f0v%d", i)}})
		n.net.AddLink("", netdev.Link{Name: fmt.Sprintf("rep%d", i), MTU: 1500, MAC: []byte{2, 0, 0, 0, 9, byte(i)}})
	}
}

func (n *nic) mac(i int) net.HardwareAddr { return []byte{2, 0, 0, 0, 0, 0x10 + byte(i)} }

// start is the agent's start.
func (n *nic) start() {
	n.t.Helper()
	if n.led != nil {
		must(n.t, n.led.Close())
	}
	var err error
	n.led, err = ledger.Open(n.dir, "boot")
	must(n.t, err)
	n.srv = n.newServer(n.host, func(path string) (PodLinks, error) { return n.net.Open(path) })
	n.ovs.Host = n.host
	n.srv.deps.Functions = &Functions{
		Resources: []string{vfPool, otherPool},
		Given: func(_ context.Context, pod types.NamespacedName, uid types.UID) (map[string][]string, error) {
			if pod.Name != "web" && pod.Name != "db" || uid == "" {
				return nil, fmt.Errorf("no pod %s with UID %s", pod, uid)
			}
			return n.given, n.err
		},
		VF: n.vf, Ledger: n.led,
		Mover: attach.New(attach.Deps{
			Ledger: n.led, Host: n.host, PF: n.host, Ethtool: n.host, Inode: n.net.Inode, Log: slog.New(slog.DiscardHandler),
			Open:      func(path string) (attach.Netns, error) { return n.net.Open(path) },
			Exclusive: func() (bool, error) { return n.inv.RDMA == "exclusive", nil },
			Present:   n.present,
			Use:       func(string) (string, error) { return n.use, nil },
			RDMA:      n.rdma,
		}),
	}
}

func (n *nic) rdma(device string) ([]string, error) {
	if device == vf0 && n.net.RDMAIn("mlx5_2") == "" {
		return []string{"mlx5_2"}, nil
	}
	return nil, nil
}

func (n *nic) vf(device string) (vf.Handle, error) {
	v, ok := n.inv.Handle(device)
	if !ok {
		return v, fmt.Errorf("%s is not a VF of this node", device)
	}
	return v, nil
}

func (n *nic) present(device string) (bool, []string, error) {
	links, err := n.host.Links()
	var names []string
	for _, l := range links {
		if l.Parent == device {
			names = append(names, l.Name)
		}
	}
	_, _, known := n.inv.VF(device)
	return known, names, err
}

// askFor gives default/web a limit on the resources.
func (n *nic) askFor(uid string, resources ...string) {
	limits := corev1.ResourceList{}
	for _, r := range resources {
		limits[corev1.ResourceName(r)] = resource.MustParse("1")
	}
	n.putPod(web, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid), Annotations: map[string]string{contract.PodNetworksKey: webNetwork}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Limits: limits}}}},
	})
}

// wantDetached checks that everything is as it was before any pod came.
func (n *nic) wantDetached() {
	n.t.Helper()
	for i, device := range []string{vf0, vf1} {
		l, err := n.host.Link(fmt.Sprintf("vf%d", i))
		if err != nil || l.Parent != device || l.MTU != 1500 || l.MAC.String() != n.mac(i).String() || l.Up ||
			!slices.Equal(l.AltNames, []string{fmt.Sprintf("enp3s0f0v%d", i)}) {
			n.t.Errorf("detached VF %s: %+v, %v", device, l, err)
		}
		if rep, err := n.host.Link(fmt.Sprintf("rep%d", i)); err != nil || rep.Up {
			n.t.Errorf("representor: %+v, %v", rep, err)
		}
	}
	if claims := n.led.Claims(); len(claims) != 0 {
		n.t.Errorf("claims are left: %+v", claims)
	}
	if owners := n.db.Owners(); len(owners) != 0 {
		n.t.Errorf("rows are left of %v", owners)
	}
	if in := n.net.RDMAIn("mlx5_2"); in != "" {
		n.t.Errorf("the RDMA device is in %q", in)
	}
	if mac := n.net.VFMAC("p0", 0); mac != nil && mac.String() != "02:00:00:00:00:70" {
		n.t.Errorf("on the PF's side, the MAC is %s", mac)
	}
}

// wantIn checks that default/web has VF 0 in the namespace.
func (n *nic) wantIn(path, sandbox string) {
	n.t.Helper()
	pod, err := n.net.Open(path)
	must(n.t, err)
	l, err := pod.Link("eth0")
	if err != nil || l.Parent != vf0 || l.MTU != 1400 || l.MAC.String() != "0a:58:0a:f4:01:05" || !l.Up || len(l.AltNames) != 0 {
		n.t.Errorf("in %s: %+v, %v", path, l, err)
	}
	if addrs, err := pod.Addrs("eth0"); err != nil || !slices.Equal(addrs, prefixes("10.244.1.5/24")) {
		n.t.Errorf("in %s: addresses %v, %v", path, addrs, err)
	}
	if routes, err := pod.Routes("eth0"); err != nil || len(routes) != 3 {
		n.t.Errorf("in %s: routes %v, %v", path, routes, err)
	}
	if rep, err := n.host.Link("rep0"); err != nil || !rep.Up || rep.MTU != 1400 {
		n.t.Errorf("representor: %+v, %v", rep, err)
	}
	claim, ok := n.led.Holder(vf0)
	if !ok || claim.Sandbox != sandbox || claim.Phase != ledger.Attached || claim.Original.Name != "vf0" {
		n.t.Errorf("claim is %+v", claim)
	}
	if p := n.plugged(); p.Link != "rep0" || p.Sandbox != sandbox || !p.Representor {
		n.t.Errorf("port is %+v", p)
	}
	if in := n.net.RDMAIn("mlx5_2"); in != path {
		n.t.Errorf("the RDMA device is in %q", in)
	}
	if mac := n.net.VFMAC("p0", 0); mac.String() != "0a:58:0a:f4:01:05" {
		n.t.Errorf("on the PF's side, the MAC is %s", mac)
	}
}

func TestDevice_MovesIntoPodAndBack(t *testing.T) {
	n := newNIC(t)
	var got types100.Result
	must(t, json.Unmarshal(n.mustDo(addWeb(sandboxA, "/ns/a")), &got))
	if len(got.Interfaces) != 2 || got.Interfaces[0].Name != "rep0" || got.Interfaces[1].PciID != vf0 || got.Interfaces[1].Mtu != 1400 ||
		len(got.IPs) != 1 || *got.IPs[0].Interface != 1 {
		t.Errorf("result is %s", text(t, got))
	}
	n.wantIn("/ns/a", sandboxA)
	n.wantLinks() // no veth
	check := addWeb(sandboxA, "/ns/a")
	check.Command = "CHECK"
	n.mustDo(check)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.wantIn("/ns/a", sandboxA)
	for range 2 {
		n.mustDo(delWeb(sandboxA, "/ns/a"))
		n.wantDetached()
	}
}

func TestDevice_InterfaceRowHasExternalIDs(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	for _, row := range n.db.Rows(web.String()) {
		if i, ok := row.Model.(*vswitch.Interface); ok {
			want := map[string]string{
				"attached_mac": "0a:58:0a:f4:01:05", "iface-id": "default_web", "iface-id-ver": webUID, "sandbox": sandboxA,
				"ip_addresses": "10.244.1.5/24", "pod-if-name": "eth0", "ovn-offload.io/network": "ovn-kubernetes",
				"vf-netdev-name": "vf0", "ovn-installed": "true",
			}
			if !maps.Equal(want, i.ExternalIDs) {
				t.Errorf("external_ids are %v", i.ExternalIDs)
			}
		}
	}
}

// TestDevice_PodWithoutRequestGetsVeth: without a request there is a veth, on such a node too.
func TestDevice_PodWithoutRequestGetsVeth(t *testing.T) {
	n := newNIC(t)
	n.err = errors.New("asked without need")
	n.setPod(web, webUID, webNetwork)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.wantLinks(linkA)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantDetached()
}

func TestDevice_FailedADDLeavesNoClaim(t *testing.T) {
	tests := []struct {
		name   string
		change func(n *nic, r *Request)
		text   string
	}{
		{"kubelet gave none", func(n *nic, _ *Request) { n.given = nil }, "the kubelet has given it none"},
		{"kubelet fails", func(n *nic, _ *Request) { n.err = errors.New("no socket") }, "no socket"},
		{"no such device", func(n *nic, _ *Request) { n.given = map[string][]string{vfPool: {"0000:09:00.1"}} }, "0000:09:00.1 is not a VF of this node"},
		{"no device", func(_ *nic, r *Request) { r.Conf.DeviceID = "../x" }, "deviceID"},
		{"no driver", func(n *nic, _ *Request) { n.inv.PFs[0].VFs[0].Driver = "" }, "has no driver"},
		{"no representor", func(n *nic, _ *Request) { n.inv.PFs[0].VFs[0].Representor = nil }, "no representor"},
		{"the node's", func(n *nic, _ *Request) { n.use = "vf0 has address 10.1.2.3/24" }, "the node uses it: vf0 has address 10.1.2.3/24"},
		{"no netdev", func(n *nic, _ *Request) { n.net.RemoveDevice(vf0) }, "netdev of 0000:03:00.2"},
		{"name taken", func(n *nic, _ *Request) { n.net.AddLink("/ns/a", netdev.Link{Name: "eth0"}) }, "link exists"},
		{"held", func(n *nic, _ *Request) {
			n.setPod(contract.PodOwner("default", "db"), "uid-db", otherNetwork)
			_, err := n.led.Take([]string{vf0}, ledger.Claim{Pod: types.NamespacedName{Namespace: "default", Name: "db"}, UID: "uid-db", Sandbox: "x", Interface: "eth0"})
			must(n.t, err)
		}, "is held by pod default/db"},
		{"node without devices", func(n *nic, r *Request) { n.srv.deps.Functions = nil; r.Conf.DeviceID = vf0 }, "hands out no devices"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNIC(t)
			r := addWeb(sandboxA, "/ns/a")
			tt.change(n, r)
			if _, err := n.do(r); err == nil || !contains(err, tt.text) {
				t.Errorf("ADD: %v, want %q", err, tt.text)
			}
			n.wantLinks() // no veth instead
			if owners := n.db.Owners(); len(owners) != 0 {
				t.Errorf("rows are left of %v", owners)
			}
			for _, c := range n.led.Claims() {
				if c.Sandbox == sandboxA {
					t.Errorf("a claim is left: %+v", c)
				}
			}
		})
	}
}

// TestDeviceNamed_ChoosesBetweenDevices: Multus says which of the pod's devices is for the network.
func TestDeviceNamed_ChoosesBetweenDevices(t *testing.T) {
	for _, key := range []string{`"deviceID":"` + vf1 + `"`, `"runtimeConfig":{"deviceID":"` + vf1 + `"}`} {
		n := newNIC(t)
		n.given = map[string][]string{vfPool: {vf0}, "example.com/not-ours": {vf1}}
		r := addWeb(sandboxA, "/ns/a")
		must(t, json.Unmarshal([]byte(`{`+key+`}`), &r.Conf))
		n.mustDo(r)
		if p := n.plugged(); p.Link != "rep1" {
			t.Errorf("port is %+v", p)
		}
		n.mustDo(delWeb(sandboxA, "/ns/a"))
		n.wantDetached()
	}
}

// TestDeviceNamed_OnlyIfKubeletGaveIt: any author of a network configuration
// could name any VF, with a pod that asks for none or for another one.
func TestDeviceNamed_OnlyIfKubeletGaveIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *nic)
		text   string
	}{
		"another one": {func(*nic) {}, "the kubelet has not given it to pod Pod/default/web"},
		"none":        {func(n *nic) { n.setPod(web, webUID, webNetwork); n.given = nil }, "the kubelet has not given it to pod Pod/default/web"},
		"reserved": {func(n *nic) {
			n.given = map[string][]string{vfPool: {vf1}}
			n.srv.deps.Functions.Reserved = func() map[string]bool { return map[string]bool{vf1: true} }
		}, "is reserved"},
		"kubelet fails": {func(n *nic) { n.err = errors.New("no socket") }, "no socket"},
	} {
		n := newNIC(t)
		c.change(n)
		r := addWeb(sandboxA, "/ns/a")
		r.Conf.DeviceID = vf1
		if _, err := n.do(r); err == nil || codeOf(err) != CodeDevice || !contains(err, c.text) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
		n.wantDetached()
	}
}

// TestDeviceNamed_AgainWithoutKubelet: what is claimed needs no second word.
func TestDeviceNamed_AgainWithoutKubelet(t *testing.T) {
	n := newNIC(t)
	r := addWeb(sandboxA, "/ns/a")
	r.Conf.DeviceID = vf0
	n.mustDo(r)
	n.given, n.err = nil, errors.New("no socket")
	n.mustDo(r)
	n.wantIn("/ns/a", sandboxA)
}

// TestDevice_OfOtherDevicePluginIsAttached: another device plugin's resource.
func TestDevice_OfOtherDevicePluginIsAttached(t *testing.T) {
	n := newNIC(t)
	n.askFor(webUID, otherPool, "example.com/gpu")
	n.given = map[string][]string{otherPool: {vf0}, "example.com/gpu": {"gpu0"}}
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.wantIn("/ns/a", sandboxA)
}

func TestDevice_VFIOGetsMACFromPF(t *testing.T) {
	n := newNIC(t)
	n.net.RemoveDevice(vf0)
	n.inv.PFs[0].VFs[0].Driver = "vfio-pci"
	var got types100.Result
	must(t, json.Unmarshal(n.mustDo(addWeb(sandboxA, "/ns/a")), &got))
	if len(got.IPs) != 1 || got.Interfaces[1].PciID != vf0 || got.Interfaces[1].Mac != "0a:58:0a:f4:01:05" {
		t.Errorf("result is %s", text(t, got))
	}
	if mac := n.net.VFMAC("p0", 0); mac.String() != "0a:58:0a:f4:01:05" {
		t.Errorf("on the PF's side, the MAC is %s", mac)
	}
	for _, row := range n.db.Rows(web.String()) {
		if i, ok := row.Model.(*vswitch.Interface); ok && i.ExternalIDs["vf-is-vfio"] != "true" {
			t.Errorf("external_ids are %v", i.ExternalIDs)
		}
	}
	check := addWeb(sandboxA, "/ns/a")
	check.Command = "CHECK"
	n.mustDo(check)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.net.AddLink("", netdev.Link{Name: "vf0", Parent: vf0, MTU: 1500, MAC: n.mac(0), AltNames: []string{"enp3s0f0v0"}})
	n.wantDetached()
}

// TestDevice_VFIOGetsMACFromRepresentor: the representor's port of the switch is left.
func TestDevice_VFIOGetsMACFromRepresentor(t *testing.T) {
	n := newNIC(t)
	n.net.RemoveDevice(vf0)
	n.inv.PFs[0].VFs[0].Driver = "vfio-pci"
	n.inv.PFs[0].Ports = nil
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if mac := n.net.FunctionMAC("rep0"); mac.String() != "0a:58:0a:f4:01:05" {
		t.Errorf("of the function, the MAC is %s", mac)
	}
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	if mac := n.net.FunctionMAC("rep0"); mac.String() != "02:00:00:00:00:70" {
		t.Errorf("the MAC of the detached function is %s", mac)
	}
}

// TestDevice_NextPodTakesItBeforeLateDEL: the kubelet gives the device to the next pod before the DEL
// of the last one has run.
func TestDevice_NextPodTakesItBeforeLateDEL(t *testing.T) {
	n := newNIC(t)
	db := contract.PodOwner("default", "db")
	n.setPod(db, "uid-db", otherNetwork)
	first := addWeb(sandboxB, "/ns/b")
	first.Pod, first.UID, first.Conf.DeviceID = db, "uid-db", vf0
	n.mustDo(first)
	if _, err := n.do(addWeb(sandboxA, "/ns/a")); codeOf(err) != CodeDevice || !contains(err, "is held by pod default/db") {
		t.Errorf("ADD while the last pod lives: %v", err)
	}
	n.putPod(db, nil)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.wantIn("/ns/a", sandboxA)
	late := *first
	late.Command = "DEL"
	n.mustDo(&late)
	n.wantIn("/ns/a", sandboxA)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantDetached()
}

func TestDevice_NewSandboxTakesItOver(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.mustDo(addWeb(sandboxB, "/ns/b"))
	n.wantIn("/ns/b", sandboxB)
	n.mustDo(delWeb(sandboxA, "/ns/a")) // late
	n.wantIn("/ns/b", sandboxB)
	n.mustDo(delWeb(sandboxB, ""))
	n.wantDetached()
}

// TestDevice_StaysClaimedWhileNICIsUnknown: what the NIC is cannot be asked for while its VF is on its
// detachment.
func TestDevice_StaysClaimedWhileNICIsUnknown(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.net.AddNS("/leaked")
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	l, err := pod.Link("eth0")
	must(t, err)
	must(t, pod.MoveLink(netdev.Move{Index: l.Index, To: "/leaked", Name: "eth0"}))
	n.net.RemoveNS("/ns/a")
	look := n.srv.deps.Functions.VF
	n.srv.deps.Functions.VF = func(string) (vf.Handle, error) { return vf.Handle{}, errors.New("interrupted") }
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	if _, held := n.led.Holder(vf0); !held {
		t.Error("the claim has ended, and the device is not detached")
	}
	n.srv.deps.Functions.VF = look
	n.net.RemoveNS("/leaked")
	must(t, n.srv.Sweep(t.Context()))
	n.wantDetached()
}

// TestDevice_NewSandboxKeepsFirstOfSeveral: the first of several devices is the network, though the
// DEL of the last sandbox is not done: the pod takes the others for itself.
func TestDevice_NewSandboxKeepsFirstOfSeveral(t *testing.T) {
	n := newNIC(t)
	n.given = map[string][]string{vfPool: {vf0, vf1}}
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.mustDo(addWeb(sandboxB, "/ns/b"))
	n.wantIn("/ns/b", sandboxB)
}

// TestDevice_SecondInterfaceIsRefused: only one is ours, and asking for another one does the
// first no harm.
func TestDevice_SecondInterfaceIsRefused(t *testing.T) {
	for _, asks := range []bool{true, false} {
		n := newNIC(t)
		if !asks {
			n.setPod(web, webUID, webNetwork) // its first is a veth
		}
		n.mustDo(addWeb(sandboxA, "/ns/a"))
		was := n.plugged()
		n.given = map[string][]string{vfPool: {vf0, vf1}}
		second := addWeb(sandboxA, "/ns/a")
		second.IfName, second.Conf.DeviceID = "net1", vf1
		if _, err := n.do(second); codeOf(err) != CodeTaken {
			t.Errorf("ADD of a second interface: %v", err)
		}
		second.Command = "DEL"
		n.mustDo(second)
		if now := n.plugged(); now != was {
			t.Errorf("the port is %+v, and was %+v", now, was)
		}
		if _, held := n.led.Holder(vf1); held {
			t.Error("the device of the second interface is still claimed")
		}
	}
}

// TestDevice_DetachesAfterNamespaceIsDeleted: the kernel has returned the VF to the host namespace under another name.
func TestDevice_DetachesAfterNamespaceIsDeleted(t *testing.T) {
	for _, end := range []func(*nic){
		func(n *nic) { n.mustDo(delWeb(sandboxA, "/ns/a")) },
		func(n *nic) { must(n.t, n.srv.Sweep(n.t.Context())) },
	} {
		n := newNIC(t)
		n.mustDo(addWeb(sandboxA, "/ns/a"))
		n.net.RemoveNS("/ns/a")
		if _, err := n.host.Link("vf0"); err == nil {
			t.Fatal("the kernel gave it its name back")
		}
		end(n)
		n.wantDetached()
	}
}

// TestDevice_DetachesFromStrayNamespace: a node that is itself a namespace gets nothing back from
// the kernel.
func TestDevice_DetachesFromStrayNamespace(t *testing.T) {
	n := newNIC(t)
	n.srv.deps.Functions.Mover.Strays = []string{"/ns/b"}
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.net.RemoveNS("/ns/a")
	l, err := n.host.Link("dev" + fmt.Sprint(n.indexOf(vf0)))
	must(t, err)
	must(t, n.host.MoveLink(netdev.Move{Index: l.Index, To: "/ns/b", Name: l.Name}))
	n.mustDo(delWeb(sandboxA, ""))
	n.wantDetached()
}

func (n *nic) indexOf(device string) int {
	links, err := n.host.Links()
	must(n.t, err)
	i := slices.IndexFunc(links, func(l netdev.Link) bool { return l.Parent == device })
	if i < 0 {
		n.t.Fatalf("%s is not in the host namespace", device)
	}
	return links[i].Index
}

// TestDevice_StaysClaimedInLeakedNamespace: something holds the pod's namespace open, and the device
// with it. It stays claimed until it is there.
func TestDevice_StaysClaimedInLeakedNamespace(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.net.AddNS("/leaked")
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	l, err := pod.Link("eth0")
	must(t, err)
	must(t, pod.MoveLink(netdev.Move{Index: l.Index, To: "/leaked", Name: "eth0"}))
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	if c, ok := n.led.Holder(vf0); !ok || c.Phase != ledger.Orphan {
		t.Errorf("claim is %+v", c)
	}
	if err := n.srv.Sweep(t.Context()); !errors.Is(err, attach.ErrAway) {
		t.Errorf("sweep: %v", err)
	}
	if _, err := n.do(addWeb(sandboxB, "/ns/b")); !errors.Is(err, attach.ErrAway) && !contains(err, attach.ErrAway.Error()) {
		t.Errorf("ADD of the next sandbox: %v", err)
	}
	n.net.RemoveNS("/leaked")
	must(t, n.srv.Sweep(t.Context()))
	n.wantDetached()
}

// TestDevice_IsAttachedAgainAfterDriverReload: a pod's NIC is removed and returns, as when its
// driver is loaded again.
func TestDevice_IsAttachedAgainAfterDriverReload(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	here := n.inv
	n.inv.PFs = nil
	for _, device := range []string{vf0, vf1} {
		n.net.RemoveDevice(device)
	}
	for _, rep := range []string{"rep0", "rep1"} {
		must(t, n.host.DeleteLink(rep))
	}
	must(t, n.srv.Sweep(t.Context()))
	if c, ok := n.led.Holder(vf0); !ok || c.Phase != ledger.Attached {
		t.Errorf("without the device the claim is %+v", c)
	}
	n.inv = here
	n.plugIn()
	n.net.AddRDMA("", "mlx5_2")
	must(t, n.srv.Sweep(t.Context()))
	n.wantIn("/ns/a", sandboxA)
	must(t, n.srv.Sweep(t.Context())) // nothing to do
	n.wantIn("/ns/a", sandboxA)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantDetached()
}

// TestDevice_SweepRestoresRepresentor: only the switch's end has lost its state.
func TestDevice_SweepRestoresRepresentor(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	must(t, n.host.SetLink("rep0", netdev.Settings{MTU: 1500, State: netdev.Down}))
	must(t, n.srv.Sweep(t.Context()))
	n.wantIn("/ns/a", sandboxA)
}

// TestDevice_GCDetachesUnlistedOnly: GC detaches the devices that the runtime does not list, and keeps those that it lists.
// TestDevice_CostOfADDAndDELIsThatOfOneVF: what is asked of the kernel does not grow with the links of the node, which
// are two for each VF. Each call is one request or two.
func TestDevice_CostOfADDAndDELIsThatOfOneVF(t *testing.T) {
	var costs [2][]int
	for i, vfs := range []int{2, 256} {
		n := newNIC(t)
		for v := 2; v < vfs; v++ {
			n.net.AddLink("", netdev.Link{Name: fmt.Sprint("vf", v), Parent: fmt.Sprintf("0000:03:%02x.%d", v/8+1, v%8)})
			n.net.AddLink("", netdev.Link{Name: fmt.Sprint("rep", v)})
		}
		calls := 0
		n.net.FailWith(func(string, string) error { calls++; return nil })
		for _, r := range []*Request{addWeb(sandboxA, "/ns/a"), delWeb(sandboxA, "/ns/a")} {
			calls = 0
			n.mustDo(r)
			costs[i] = append(costs[i], calls)
		}
	}
	if !slices.Equal(costs[0], costs[1]) || costs[0][0] == 0 {
		t.Errorf("ADD and DEL make %v calls with two VFs, and %v with 256", costs[0], costs[1])
	}
}

// TestDevice_SweepFollowsRenamedRepresentor: after a reset of the NIC a name such as eth12 is that of another VF's
// representor, which is there and up.
func TestDevice_SweepFollowsRenamedRepresentor(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.net.AddLink("", netdev.Link{Name: "rep7", MTU: 1500})
	vfs := n.inv.PFs[0].VFs
	vfs[0].Representor, vfs[1].Representor = &vf.Representor{Netdev: vf.Netdev{Name: "rep7"}}, &vf.Representor{Netdev: vf.Netdev{Name: "rep0"}}
	must(t, n.srv.Sweep(t.Context()))
	if now := n.plugged(); now.Link != "rep7" {
		t.Errorf("the port is %+v", now)
	}
	if rep, err := n.host.Link("rep7"); err != nil || !rep.Up {
		t.Errorf("the VF's representor: %+v, %v", rep, err)
	}
}

func TestDevice_GCDetachesUnlistedOnly(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	gc := &Request{Command: "GC", Conf: Conf{CNIVersion: "1.1.0", Name: "another-network"}}
	n.mustDo(gc)
	n.wantIn("/ns/a", sandboxA)
	gc.Conf.Name = "ovn-kubernetes"
	n.mustDo(gc)
	n.wantDetached()
}

func TestDevice_SweepDetachesAfterPodIsDeleted(t *testing.T) {
	n := newNIC(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	must(t, n.srv.Sweep(t.Context()))
	n.wantIn("/ns/a", sandboxA)
	n.putPod(web, nil)
	must(t, n.srv.Sweep(t.Context()))
	n.wantDetached()
}
