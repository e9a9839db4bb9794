//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const (
	dpuDir, dpuPCI = "BENCH_DPU_DIR", "BENCH_DPU_PCI"
	dpuHost        = "worker"
	webV4, webV6   = "10.1.0.21", "fd00:1::21"
	webMAC         = "0a:00:00:00:00:21"
	// recovery is what the return of a function may take.
	recovery = 10 * time.Second
)

// TestDPU: the second node is a DPU, whose host has the VFs of its NIC. OVS, OVN
// and the NIC are real, so to speak; the API server is in memory. The DPU's and
// the host's side run in a process of the node, TestInsideDPU.
func TestDPU(t *testing.T) {
	c := newCluster(t, true)
	c.nb("ls-add", "s1")
	a := &endpoint{name: "a", v4: "10.1.0.11", v6: "fd00:1::11", node: c.nodes[0], vf: 0}
	c.pod(a, 0)
	t.Cleanup(func() { _, _ = try("ip", "netns", "del", "a") })
	c.nb("lsp-add", "s1", "default_web", "--", "lsp-set-addresses", "default_web", webMAC+" "+webV4+" "+webV6)
	c.sync()
	n := c.nodes[1]
	run(t, "ip", "netns", "add", "web")
	t.Cleanup(func() { _, _ = try("ip", "netns", "del", "web") })
	words := inside(n.name, os.Args[0], "-test.run=^TestInsideDPU$", "-test.v", "-test.timeout=10m")
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), dpuDir+"="+n.dir, dpuPCI+"="+n.pci)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
}

// dpuBench is both sides of the node.
type dpuBench struct {
	*testing.T
	dir, pci string
	api      *fake.Clientset
	view     *kube.View
	db       *ovsdb.DB
	ns       *netdev.NS
	live     *vf.Live
	host     *dpu.Host
	agent    *dpu.Ports
	stop     func()
}

func TestInsideDPU(t *testing.T) {
	b := newDPUBench(t)
	b.start()
	b.pod()
	b.offloadOn()
	port := b.add("sandbox-1", 0)
	b.reaches(recovery)
	b.offloads()

	// The agent restarts: nothing is lost on the way.
	stream := exec.Command("ip", "netns", "exec", "a", "ping", "-q", "-i", "0.2", "-c", "40", "-W", "2", webV4)
	var lost strings.Builder
	stream.Stdout = &lost
	if err := stream.Start(); err != nil {
		t.Fatal(err)
	}
	b.stop()
	time.Sleep(time.Second)
	b.start()
	if err := stream.Wait(); err != nil || !strings.Contains(lost.String(), " 0% packet loss") {
		t.Errorf("during the agent's restart: %v: %s", err, lost.String())
	}

	// OVS restarts.
	b.restartOVS()
	b.reaches(2 * recovery)

	// The DPU reboots: agent, ports and functions go, and the functions return.
	b.stop()
	write(t, driver+b.pci+"/sriov_numvfs", "0")
	for _, name := range strings.Fields(run(t, "ovs-vsctl", "--db=unix:"+b.dir+"/db.sock", "list-ports", "br-int")) {
		if !strings.HasPrefix(name, "ovn-") {
			run(t, "ovs-vsctl", "--db=unix:"+b.dir+"/db.sock", "--if-exists", "del-port", name)
		}
	}
	b.start()
	b.status("Error")
	if _, err := try(inside("a", "ping", "-c1", "-W1", webV4)...); err == nil {
		t.Error("a pod without function answers")
	}
	write(t, driver+b.pci+"/sriov_numvfs", "4")
	back := time.Now()
	b.status("Ready")
	ready := time.Since(back)
	b.give(0)
	b.reaches(recovery)
	traffic := time.Since(back)
	t.Logf("after the return of the functions: port %s, traffic %s", ready.Round(time.Millisecond), traffic.Round(time.Millisecond))
	if traffic > 10*time.Second {
		t.Errorf("traffic %s after the return of the functions, want it within 10s", traffic)
	}

	// The host reboots: functions go and come under a living DPU, and the pod
	// gets another one for another sandbox, without a DEL of the first.
	write(t, driver+b.pci+"/sriov_numvfs", "0")
	eventually(t, "no port is left", recovery, func() bool { return b.ports() == "" })
	write(t, driver+b.pci+"/sriov_numvfs", "4")
	port = b.add("sandbox-2", 2)
	b.reaches(recovery)
	if ports := b.ports(); len(strings.Fields(ports)) != 1 {
		t.Errorf("ports %q", ports)
	}

	// DEL: the DPU lets go, and the function carries nothing any more.
	if err := b.host.Unplug(t.Context(), port.Plugged); err != nil {
		t.Fatal(err)
	}
	if ports := b.ports(); ports != "" {
		t.Errorf("after DEL: ports %q", ports)
	}
	if _, err := try(inside("a", "ping", "-c1", "-W1", webV4)...); err == nil {
		t.Error("the pod answers after DEL")
	}
}

func newDPUBench(t *testing.T) *dpuBench {
	b := &dpuBench{T: t, dir: os.Getenv(dpuDir), pci: os.Getenv(dpuPCI), api: fake.NewClientset()}
	if b.dir == "" {
		t.Skip("is run by TestDPU")
	}
	var err error
	b.view, err = kube.NewView(b.api, dpuHost)
	b.ok(err)
	b.ns, err = netdev.Open("")
	b.ok(err)
	devices, err := netdev.OpenDevices(b.ns)
	b.ok(err)
	b.live = vf.NewLive(&vf.Node{Sysfs: netdev.OpenSysfs("/sys"), Kernel: devices, Links: b.ns, Events: devices}, slog.Default())
	b.live.OnChange(func(inv vf.Inventory) {
		if b.agent != nil {
			b.agent.SetInventory(inv)
		}
	})
	schema, err := vswitch.ReplicaSchema()
	b.ok(err)
	b.db, err = ovsdb.Open(t.Context(), ovsdb.Defaults([]string{"unix:" + b.dir + "/db.sock"}, schema))
	b.ok(err)
	t.Cleanup(b.db.Close)
	waiting := cni.NewPods(b.view.Pod)
	b.view.OnChange(waiting.Changed)
	b.view.OnChange(func(owners ...kube.Owner) {
		if b.agent != nil {
			b.agent.Changed(owners...)
		}
	})
	b.db.OnReconnect(func() { b.agent.Mark() })
	b.host = &dpu.Host{
		Node: dpuHost, View: b.view, Waiting: waiting, Annotate: kube.NewWriter(b.api).AnnotatePod,
		Inventory: func() vf.Inventory { return *b.live.Inventory() }, Ready: func() error { return nil },
	}
	b.ok(b.view.Start(t.Context()))
	return b
}

func (b *dpuBench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// start runs the DPU's side.
func (b *dpuBench) start() {
	b.Helper()
	cfg := dpu.Defaults()
	self := uint32(0)
	cfg.Host, cfg.Controller = dpuHost, &self
	agent, err := dpu.NewPorts(cfg, dpu.Deps{
		Pods: b.view, Switch: &cni.OVS{DB: b.db, Bridge: "br-int", Host: b.ns, Representor: dpu.Representor}, MTU: func() int { return 1400 },
		Annotate: kube.NewWriter(b.api).AnnotatePod, Warn: func(o kube.Owner, reason, note string) { b.Log(o, reason, note) },
	})
	b.ok(err)
	b.agent = agent
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{}, 2)
	go func() { _ = agent.Run(ctx); done <- struct{}{} }()
	go func() { _ = b.live.Run(ctx); done <- struct{}{} }()
	b.stop = func() { cancel(); <-done; <-done }
}

func (b *dpuBench) pod() {
	b.Helper()
	value, err := kube.FormatNetwork(kube.DefaultNetwork, map[string]any{"ip_addresses": []string{webV4 + "/24", webV6 + "/64"}, "mac_address": webMAC})
	b.ok(err)
	_, err = b.api.CoreV1().Pods("default").Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid", Annotations: map[string]string{kube.PodNetworksKey: value}},
		Spec:       corev1.PodSpec{NodeName: dpuHost},
	}, metav1.CreateOptions{})
	b.ok(err)
	eventually(b, "the informer has the pod", recovery, func() bool { return b.view.Pod("default", "web") != nil })
}

// add is the host's CNI ADD.
func (b *dpuBench) add(sandbox string, number int) cni.Port {
	b.Helper()
	device, err := os.Readlink(fmt.Sprintf("/sys/bus/pci/devices/%s/virtfn%d", b.pci, number))
	b.ok(err)
	id := filepath.Base(device)
	eventually(b, "the inventory has "+id, recovery, func() bool {
		inv := b.live.Inventory()
		if inv == nil {
			return false
		}
		_, _, ok := inv.VF(id)
		return ok
	})
	port := cni.Port{
		Plugged: cni.Plugged{Pod: kube.PodOwner("default", "web"), UID: "web-uid", Sandbox: sandbox, IfName: "eth0"},
		MTU:     1400, Addresses: []netip.Prefix{netip.MustParsePrefix(webV4 + "/24")},
		Device: &cni.Device{ID: id, Function: vf.Function{Flavour: netdev.FlavourVF, Number: uint32(number)}},
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	_, err = b.host.Plug(ctx, port)
	b.ok(err)
	b.ok(b.host.Wait(ctx, port))
	b.Logf("the DPU answered for VF %d after %s", number, time.Since(start).Round(time.Millisecond))
	b.give(number)
	return port
}

// give moves a VF into the pod.
func (b *dpuBench) give(number int) {
	b.Helper()
	dir := fmt.Sprintf("/sys/bus/pci/devices/%s/virtfn%d/net", b.pci, number)
	eventually(b, "the VF has a netdev", recovery, func() bool { names, err := os.ReadDir(dir); return err == nil && len(names) == 1 })
	names, err := os.ReadDir(dir)
	b.ok(err)
	run(b, "ip", "link", "set", names[0].Name(), "netns", "web")
	run(b, "ip", "-n", "web", "link", "set", names[0].Name(), "name", "eth0", "address", webMAC, "mtu", "1400", "up")
	run(b, "ip", "-n", "web", "addr", "add", webV4+"/24", "dev", "eth0")
	run(b, "ip", "-n", "web", "addr", "add", webV6+"/64", "dev", "eth0", "nodad")
}

// reaches asks the pod of the other node, in both families.
func (b *dpuBench) reaches(within time.Duration) {
	b.Helper()
	for _, address := range []string{webV4, webV6} {
		eventually(b, "a reaches "+address, within, func() bool {
			_, err := try(inside("a", "ping", "-c1", "-W1", address)...)
			return err == nil
		})
	}
}

func (b *dpuBench) status(want string) {
	b.Helper()
	eventually(b, "the status is "+want, recovery, func() bool {
		s, err := kube.ParseDPUStatus(b.view.Pod("default", "web").Annotations[kube.DPUStatusKey], kube.DefaultNetwork)
		return err == nil && s != nil && s.Status == want
	})
}

// ports are the pods' representors in br-int.
func (b *dpuBench) ports() string {
	b.Helper()
	return run(b, "ovs-vsctl", "--db=unix:"+b.dir+"/db.sock", "--bare", "--columns=name", "find", "Interface", "external_ids:iface-id=default_web")
}

// offloadOn is what an OffloadPolicy does with representors; OVS asks for it when
// a port is added.
func (b *dpuBench) offloadOn() {
	b.Helper()
	eventually(b, "the inventory has representors", recovery, func() bool {
		inv := b.live.Inventory()
		return inv != nil && len(pf(b.T, *inv, b.pci).VFs) == 4
	})
	for _, v := range pf(b.T, *b.live.Inventory(), b.pci).VFs {
		run(b, "ethtool", "-K", v.Representor.Name, "hw-tc-offload", "on")
	}
}

// offloads wants traffic of the pod in the NIC.
func (b *dpuBench) offloads() {
	b.Helper()
	rep, seen := b.ports(), ""
	b.Cleanup(func() {
		if b.Failed() {
			b.Log(rep, seen)
		}
	})
	ctl := unixctl.Client{Dir: b.dir, Daemon: "ovs-vswitchd"}
	eventually(b, "flows are in hardware", 2*recovery, func() bool {
		_, _ = try(inside("a", "ping", "-c3", "-i", "0.2", "-W1", webV4)...)
		text, err := ctl.Call(b.Context(), "dpctl/dump-flows", "--names", "type=offloaded")
		b.ok(err)
		seen = text
		return strings.Contains(text, "in_port("+rep+")")
	})
}

func (b *dpuBench) restartOVS() {
	b.Helper()
	run(b, "pkill", "-9", "-F", b.dir+"/ovs-vswitchd.pid")
	run(b, "env", "OVS_RUNDIR="+b.dir, "ovs-vswitchd", "unix:"+b.dir+"/db.sock", "--pidfile", "--log-file="+b.dir+"/vswitchd.log", "--detach", "-vconsole:off")
}
