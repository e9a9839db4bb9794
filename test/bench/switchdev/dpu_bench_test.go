//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/attach"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

const (
	dpuDir, dpuPCI, dpuNS = "BENCH_DPU_DIR", "BENCH_DPU_PCI", "BENCH_DPU_NS"
	dpuHost               = "worker"
	// recovery is how long a pod may be without traffic after its function is back;
	// patience is for what is not measured.
	recovery, patience = 10 * time.Second, 3 * time.Minute
)

// dpuBench is a host, whose namespace is this process's, and its DPU, which has
// the NIC's uplink and representors in another. Each has its agent's parts, as
// cmd/agent joins them, around one API server in memory.
type dpuBench struct {
	*testing.T
	c    *cluster // for OVN's databases
	pci  string
	api  *fake.Clientset
	dpu  *dpuSide
	host *hostSide
}

func newDPUBench(t *testing.T) *dpuBench {
	dir := os.Getenv(dpuDir)
	if dir == "" {
		t.Skip("is run by onHost")
	}
	return &dpuBench{T: t, c: &cluster{t: t, dir: filepath.Dir(dir)}, pci: os.Getenv(dpuPCI), api: fake.NewClientset()}
}

// newHandDPUBench has its Node, and its networks in OVN, from the test.
func newHandDPUBench(t *testing.T) *dpuBench {
	b := newDPUBench(t)
	_, err := b.api.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: dpuHost, UID: "uid-" + dpuHost, Annotations: map[string]string{contract.NodeSubnetsKey: `{"default":["10.1.0.0/24","fd00:1::/64"]}`},
	}}, metav1.CreateOptions{})
	ok(t, err)
	b.managementNetwork()
	return b
}

// start makes the functions and runs both agents.
func (b *dpuBench) start() {
	b.Helper()
	b.dpu = newDPUSide(b, os.Getenv(dpuDir), os.Getenv(dpuNS))
	b.host = &hostSide{dpuBench: b, dir: b.TempDir()}
	b.functions()
	b.isNetwork()
	b.dpu.start()
	b.dpu.offloadOn()
	b.host.start("boot 1")
	eventually(b, "the DPU is ready", patience, func() bool { return b.statusError() == nil })
}

// isNetwork gives the NIC the PCI class of one in the eyes of this process: the
// simulated one has another, and the host does not see a netdev of the PF.
func (b *dpuBench) isNetwork() {
	b.Helper()
	class := filepath.Join(b.TempDir(), "class")
	ok(b, os.WriteFile(class, []byte("0x020000\n"), 0o600))
	ok(b, unix.Mount(class, "/sys/bus/pci/devices/"+b.pci+"/class", "", unix.MS_BIND, ""))
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// functions makes the NIC's VFs anew, and says when they were there: the netdevs
// are the host's and the representors the DPU's.
func (b *dpuBench) functions() (back time.Time) {
	b.Helper()
	b.noFunctions()
	write(b, driver+b.pci+"/sriov_numvfs", "4")
	back = time.Now()
	b.take()
	return back
}

// take gives the host the netdevs of the VFs, which the bench's driver makes in the DPU's namespace.
func (b *dpuBench) take() {
	b.Helper()
	for i := range 4 {
		dir := fmt.Sprintf("%s/bus/pci/devices/%s/virtfn%d/net", b.dpu.sysfs, b.pci, i)
		names, err := os.ReadDir(dir)
		ok(b, err)
		run(b, "ip", "-n", b.dpu.name, "link", "set", names[0].Name(), "netns", dpuHost)
	}
}

func (b *dpuBench) noFunctions() { write(b, driver+b.pci+"/sriov_numvfs", "0") }

func (b *dpuBench) device(number int) string {
	b.Helper()
	link, err := os.Readlink(fmt.Sprintf("/sys/bus/pci/devices/%s/virtfn%d", b.pci, number))
	ok(b, err)
	return filepath.Base(link)
}

// dpuSide is the DPU.
type dpuSide struct {
	*dpuBench
	name, dir, sysfs string // namespace, that of OVS' sockets, its own view of devices
	ns               *netdev.NS
	kernel           *devlink.Devices
	view             *kube.NodeView
	db               *ovsdb.DB
	live             *vf.Live
	ports            atomic.Pointer[dpu.Ports]
	own              *management.Runner
	stop             func()
}

func newDPUSide(b *dpuBench, dir, name string) *dpuSide {
	d := &dpuSide{dpuBench: b, name: name, dir: dir, sysfs: filepath.Join(b.TempDir(), "sys")}
	var err error
	d.ns, err = netdev.Open("/run/netns/" + name)
	ok(b, err)
	mountSysfs(b.T, name, d.sysfs)
	d.kernel, err = devlink.Open(d.ns)
	ok(b, err)
	d.live = vf.NewLive(&vf.Node{Sysfs: netdev.OpenSysfs(d.sysfs), Kernel: d.kernel, Links: d.ns, Events: d.kernel}, slog.Default())
	d.live.OnChange(func(inv vf.Inventory) { d.ports.Load().SetInventory(inv); d.own.Mark() })
	schema, err := vswitch.ReplicaSchema()
	ok(b, err)
	d.db, err = ovsdb.Open(b.Context(), ovsdb.Defaults([]string{"unix:" + dir + "/db.sock"}, schema))
	ok(b, err)
	b.Cleanup(d.db.Close)
	d.view, err = kube.NewNodeView(apitest.Client(b.api), dpuHost)
	ok(b, err)
	d.view.OnChange(func(owners ...contract.Owner) {
		if ports := d.ports.Load(); ports != nil {
			ports.Changed(owners...)
		}
	})
	d.own = b.management(d.view, d.ns, d.db, d.function)
	d.db.OnReconnect(func() { d.ports.Load().Mark(); d.own.Mark() })
	ok(b, d.view.Start(b.Context()))
	return d
}

// mountSysfs shows devices as a namespace sees them: sysfs is that of the thread
// which mounts it.
func mountSysfs(t *testing.T, name, dir string) {
	t.Helper()
	ok(t, os.Mkdir(dir, 0o755))
	within(t, name, func() error { return unix.Mount("sysfs", dir, "sysfs", 0, "") })
	t.Cleanup(func() { ok(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// start runs the DPU's agent.
func (d *dpuSide) start() {
	d.Helper()
	cfg := dpu.Defaults()
	cfg.Host, cfg.Controllers, cfg.FlowsTimeout = dpuHost, []uint32{0}, 15*time.Second
	ports, err := dpu.NewPorts(cfg, dpu.Deps{
		Pods: d.view, Node: func() *corev1.Node { return d.view.Node(dpuHost) }, MTU: func() int { return 1400 },
		Plugger:  &plug.OVS{DB: d.db, Bridge: "br-int", Host: d.ns, Functions: d.kernel},
		Annotate: kube.NewWriter(apitest.Client(d.api)).AnnotatePod, Warn: func(o contract.Owner, reason, note string) { d.Log(o, reason, note) },
	})
	ok(d, err)
	d.ports.Store(ports)
	heartbeat := dpu.Heartbeat{
		Client: apitest.Client(d.api), Host: dpuHost, Chassis: d.name, Period: time.Second, Logger: slog.Default(),
		Node: func() *corev1.Node { return d.view.Node(dpuHost) }, Problem: ports.Problem, MTU: func() int { return 1400 },
	}
	ctx, cancel := context.WithCancel(d.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = ports.Run(ctx) })
	running.Go(func() { _ = d.live.Run(ctx) })
	running.Go(func() { _ = heartbeat.Run(ctx) })
	running.Go(func() { _ = d.own.Run(ctx) })
	d.stop = func() { cancel(); running.Wait() }
}

// hostSide is the host.
type hostSide struct {
	*dpuBench
	dir      string
	reserved vf.Selector // VFs for pods that ask for none
	live     *vf.Live
	ledger   *ledger.Ledger
	own      *management.Runner
	carrier  atomic.Pointer[string] // the VF that is the management port
	kubelet  kubelet
	stop     func()
}

// start runs the host's agent, in the given life of the machine.
func (h *hostSide) start(boot string) {
	h.Helper()
	view, err := kube.NewNodeView(apitest.Client(h.api), dpuHost)
	ok(h, err)
	pods := cni.NewPods(view.Pod)
	view.OnChange(pods.Changed)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	health := dpu.NewWatch(apitest.Client(h.api), dpuHost, log, func(dpu.Health) {})
	functions := h.functionsOf(boot, log)
	cfg := cni.Defaults()
	cfg.MTU, cfg.Socket, cfg.Native = func() int { return 1400 }, h.socket(), true
	space, err := netdev.Open("")
	ok(h, err)
	server, err := cni.NewServer(cfg, cni.Deps{
		Plugger: &dpu.Host{
			Node: dpuHost, View: view, Waiting: pods, Annotate: kube.NewWriter(apitest.Client(h.api)).AnnotatePod,
			Ready: health.Ready,
		},
		Pods: pods, Host: space, OpenNS: cni.OpenNS, Ready: health.Ready, Functions: functions,
	}, log, nil)
	ok(h, err)
	h.carrier.Store(new(string))
	h.own = h.management(view, space, nil, h.function)
	h.live.OnChange(func(vf.Inventory) { server.Repair(); h.own.Mark() })
	ctx, cancel := context.WithCancel(h.Context())
	ok(h, view.Start(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = h.live.Run(ctx) })
	running.Go(func() { _ = health.Run(ctx) })
	eventually(h, "the host knows its devices", patience, func() bool { return h.live.Inventory() != nil })
	ok(h, server.Listen())
	running.Go(func() { _ = server.RunSweeps(ctx) })
	running.Go(func() { _ = server.Run(ctx) })
	running.Go(func() { _ = h.own.Run(ctx) })
	h.stop = func() { cancel(); running.Wait(); _ = h.ledger.Close(); _ = space.Close() }
}

func (h *hostSide) socket() string { return filepath.Join(h.dir, "cni", "cni.sock") }

func (h *hostSide) functionsOf(boot string, log *slog.Logger) *cni.Functions {
	h.Helper()
	node, devices := openNode(h.T)
	var err error
	h.ledger, err = ledger.Open(filepath.Join(h.dir, "devices"), boot)
	ok(h, err)
	h.live = vf.NewLive(node, log)
	mover := attach.New(attach.Deps{
		Ledger: h.ledger, Host: node.Links.(*netdev.NS), Ethtool: devices, Inode: netdev.Inode, Log: log,
		Open:      func(path string) (attach.Netns, error) { return netdev.Open(path) },
		Exclusive: func() (bool, error) { return false, nil }, Use: node.Use,
		Present: func(device string) (bool, []string, error) { return netdev.PCINetdevs(node.Sysfs, device) },
		RDMA:    node.Sysfs.RDMADevices,
		Strays:  []string{"/proc/1/ns/net"}, // where the kernel takes what is left in a namespace
	})
	return &cni.Functions{
		Resources: []string{"ovn-offload.io/vf"}, Given: h.kubelet.devicesOf, VF: h.live.VF, Ledger: h.ledger, Mover: mover,
		Spare: func() (devices []string) {
			for _, d := range plugin.FromInventory(*h.live.Inventory(), plugin.DPUUplink) {
				if d.Problem == "" && h.reserved.Matches(d.PF.Address, d.Index) {
					devices = append(devices, d.ID)
				}
			}
			return devices
		},
	}
}

// idle waits until no VF is claimed: a DPU that is slow lets go after DEL.
func (h *hostSide) idle() {
	h.Helper()
	eventually(h, "all VFs are detached", patience, func() bool { return len(h.ledger.Claims()) == 0 })
}

// dpuPod is a pod of the host.
type dpuPod struct {
	sandbox
	b      *dpuBench
	v4, v6 string
}

// pod makes what the API server, the kubelet, the controller and the runtime
// make; the pod asks for a VF if the kubelet has given it one.
func (b *dpuBench) pod(i int, devices ...string) *dpuPod {
	b.Helper()
	p := b.sandbox(fmt.Sprintf("web%d", i))
	p.v4, p.v6 = fmt.Sprintf("10.1.0.%d", 20+i), fmt.Sprintf("fd00:1::%d", 20+i)
	mac := fmt.Sprintf("0a:00:00:00:01:%02x", i)
	b.c.nb("lsp-add", "s1", "default_"+p.name, "--", "lsp-set-addresses", "default_"+p.name, mac+" "+p.v4+" "+p.v6)
	value, err := contract.SetNetwork("", contract.DefaultNetwork, map[string]any{"ip_addresses": []string{p.v4 + "/24", p.v6 + "/64"}, "mac_address": mac})
	ok(b, err)
	p.create(map[string]string{contract.PodNetworksKey: value}, devices...)
	return p
}

// sandbox is what the runtime makes.
func (b *dpuBench) sandbox(name string) *dpuPod {
	b.Helper()
	run(b, "ip", "netns", "add", name)
	b.Cleanup(func() { _, _ = try("ip", "netns", "del", name) })
	return &dpuPod{sandbox: sandbox{T: b.T, socket: b.host.socket(), name: name, ns: name, id: "sandbox-" + name}, b: b}
}

// create makes the pod in the API server.
func (p *dpuPod) create(annotations map[string]string, devices ...string) {
	p.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.name, UID: types.UID("uid-" + p.name), Annotations: annotations, Labels: map[string]string{"app": p.name}},
		Spec:       corev1.PodSpec{NodeName: dpuHost},
	}
	if len(devices) > 0 {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: someVFs(len(devices))}}}
	}
	p.b.host.kubelet.give(p.name, devices...)
	_, err := p.b.api.CoreV1().Pods("default").Create(p.Context(), pod, metav1.CreateOptions{})
	ok(p, err)
}

// answers asks the pod of the other node to reach this one in both families.
func (p *dpuPod) answers() {
	p.Helper()
	for _, address := range []string{p.v4, p.v6} {
		eventually(p, "a reaches "+address, patience, func() bool { return reached(address) })
	}
}

// silent is its negative control.
func (p *dpuPod) silent(when string) {
	p.Helper()
	if reached(p.v4) {
		p.Errorf("%s answers %s", p.name, when)
	}
}

func reached(address string) bool {
	_, err := try(inside("a", "ping", "-n", "-c1", "-W1", address)...)
	return err == nil
}

// status waits for what the DPU says of the pod.
func (p *dpuPod) status(want string) {
	p.Helper()
	eventually(p, "the status is "+want, patience, func() bool {
		s, err := contract.ParseDPUStatus(p.b.dpu.view.Pod("default", p.name).Annotations[contract.DPUStatusKey], contract.DefaultNetwork)
		return err == nil && s != nil && s.Status == want
	})
}

// port is the pod's representor in br-int, "" without one.
func (p *dpuPod) port() string {
	p.Helper()
	return p.b.dpu.vsctl("--bare", "--columns=name", "find", "Interface", "external_ids:iface-id=default_"+p.name)
}

func (d *dpuSide) vsctl(args ...string) string {
	d.Helper()
	return run(d, append([]string{"ovs-vsctl", "-vconsole:off", "--timeout=60", "--db=unix:" + d.dir + "/db.sock"}, args...)...)
}

// state is what an administrator of the host sees of a VF.
func (h *hostSide) state(device string) string {
	h.Helper()
	node, _ := openNode(h.T)
	inv, err := node.Read()
	ok(h, err)
	_, v, found := inv.VF(device)
	if !found || v.Netdev == nil {
		return "not here"
	}
	return strings.Join([]string{v.Netdev.Name, v.Netdev.MAC.String(), fmt.Sprint(v.Netdev.MTU, v.Netdev.Up)}, " ")
}
