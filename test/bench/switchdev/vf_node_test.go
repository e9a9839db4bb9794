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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/attach"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// podNode is the machine as a node: its first NIC, OVS, OVN and our CNI server,
// without Kubernetes. The test plays the API server and the kubelet.
type podNode struct {
	*testing.T
	c       *cluster
	pci     string
	dir     string
	live    *vf.Live
	ledger  *ledger.Ledger
	db      *ovsdb.DB
	server  *cni.Server
	socket  string
	kubelet kubelet

	mu   sync.Mutex
	pods map[string]*corev1.Pod
	seen *cni.Pods
}

func newPodNode(t *testing.T) *podNode {
	t.Helper()
	return newPodNodeOf(t, "4")
}

// newPodNodeOf is a node whose NIC has so many VFs.
func newPodNodeOf(t *testing.T, vfs string) *podNode {
	t.Helper()
	n := &podNode{
		T: t, c: &cluster{t: t, dir: t.TempDir()}, pci: nics(t)[0],
		pods: map[string]*corev1.Pod{},
	}
	n.seen = podsOf(n)
	nicSet(t, n.pci, "switchdev", vfs)
	n.dir = filepath.Join(n.c.dir, "node")
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	n.c.central()
	n.c.nb("ls-add", "net")
	n.openvswitch()
	n.serve()
	return n
}

func podsOf(n *podNode) *cni.Pods {
	return cni.NewPods(func(_, name string) *corev1.Pod {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.pods[name]
	})
}

func (n *podNode) openvswitch() {
	run(n, "ovsdb-tool", "create", n.dir+"/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	n.c.daemon("", n.dir, "ovsdb-server", n.dir+"/conf.db", "--remote=punix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/ovsdb.log")
	n.vsctl("--no-wait", "init")
	n.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=node", "other_config:hw-offload=true",
		"external_ids:ovn-remote="+n.c.remote("sb"), "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge=br-int")
	n.c.daemon("", n.dir, "ovs-vswitchd", "unix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/vswitchd.log")
	n.c.daemon("", n.dir, "ovn-controller", "unix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/controller.log")
	eventually(n, "br-int", time.Minute, func() bool {
		_, err := try("ovs-vsctl", "--db=unix:"+n.dir+"/db.sock", "--timeout=10", "br-exists", "br-int")
		return err == nil
	})
}

func (n *podNode) vsctl(args ...string) string {
	n.Helper()
	return run(n, append([]string{"ovs-vsctl", "--db=unix:" + n.dir + "/db.sock", "--timeout=60"}, args...)...)
}

// serve is what cmd/agent wires, less what is Kubernetes'.
func (n *podNode) serve() {
	n.Helper()
	check := func(err error) {
		if err != nil {
			n.Fatal(err)
		}
	}
	node, devices := openNode(n.T)
	host, err := netdev.Open("")
	check(err)
	schema, err := vswitch.ReplicaSchema()
	check(err)
	db, err := ovsdb.Open(n.Context(), ovsdb.Defaults([]string{"unix:" + n.dir + "/db.sock"}, schema))
	check(err)
	n.db = db
	n.ledger, err = ledger.Open(filepath.Join(n.dir, "devices"), "")
	check(err)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	n.live = vf.NewLive(node, log)
	mover := attach.New(attach.Deps{
		Ledger: n.ledger, Host: host, PF: devices, Ethtool: devices, Inode: netdev.Inode, Log: log,
		Open:      func(path string) (attach.Netns, error) { return netdev.Open(path) },
		Exclusive: func() (bool, error) { return false, nil }, Use: node.Use,
		Present: func(device string) (bool, []string, error) { return netdev.PCINetdevs(node.Sysfs, device) },
		RDMA:    node.Sysfs.RDMADevices,
	})
	bridge := &plug.OVS{DB: db, Bridge: "br-int", Host: host}
	cfg := cni.Defaults()
	cfg.MTU, cfg.Native = func() int { return 1400 }, true
	cfg.Socket = filepath.Join(n.dir, "cni", "cni.sock")
	n.socket = cfg.Socket
	server, err := cni.NewServer(cfg, cni.Deps{
		Plugger: bridge, Pods: n.seen, Host: host, OpenNS: cni.OpenNS, Ready: bridge.Ready,
		Functions: &cni.Functions{
			Resources: []string{"ovn-offload.io/vf"}, Given: n.kubelet.devicesOf, VF: n.live.VF, Ledger: n.ledger, Mover: mover,
		},
	}, log, nil)
	check(err)
	n.server = server
	n.live.OnChange(func(vf.Inventory) { server.Repair() })
	check(server.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = n.live.Run(ctx) })
	running.Go(func() { _ = server.RunSweeps(ctx) })
	running.Go(func() { _ = server.Run(ctx) })
	n.Cleanup(func() {
		cancel()
		running.Wait()
		db.Close()
		_ = n.ledger.Close()
	})
}

// vfPod is one of the test's pods.
type vfPod struct {
	sandbox
	n       *podNode
	v4, mac string
	device  string // "": a veth
}

// pod makes what the API server, the controller and the runtime make.
func (n *podNode) pod(i int, device string) *vfPod {
	n.Helper()
	p := &vfPod{
		sandbox: sandbox{T: n.T, socket: n.socket, name: fmt.Sprintf("pod%d", i), ns: fmt.Sprintf("sandbox%d", i), id: strings.Repeat(fmt.Sprint(i%10), 32)},
		n:       n, device: device,
		v4: fmt.Sprintf("10.244.1.%d", i), mac: fmt.Sprintf("0a:58:0a:f4:01:%02x", i),
	}
	run(n, "ip", "netns", "add", p.ns)
	n.Cleanup(func() { _, _ = try("ip", "netns", "del", p.ns) })
	n.c.nb("lsp-add", "net", "default_"+p.name, "--", "lsp-set-addresses", "default_"+p.name, p.mac+" "+p.v4)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: p.name, UID: types.UID("uid-" + p.name),
		Annotations: map[string]string{contract.PodNetworksKey: fmt.Sprintf(
			`{"default":{"ip_addresses":["%s/24"],"mac_address":"%s","gateway_ips":["10.244.1.254"]}}`, p.v4, p.mac)},
	}}
	if device != "" {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: oneVF()}}}
	}
	n.mu.Lock()
	n.pods[p.name] = pod
	n.mu.Unlock()
	n.kubelet.give(p.name, device)
	n.seen.Changed(contract.PodOwner("default", p.name))
	return p
}

// reaches pings; lost packets count.
func (p *vfPod) reaches(o *vfPod) error {
	out, err := try(inside(p.ns, "ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "5", o.v4)...)
	if err != nil || !strings.Contains(out, " 0% packet loss") {
		return fmt.Errorf("%s to %s: %w\n%s", p.name, o.name, err, out)
	}
	return nil
}

func (n *podNode) stop() {
	if n.Failed() {
		for _, words := range [][]string{{"ip", "-br", "link"}, {"ovs-vsctl", "--db=unix:" + n.dir + "/db.sock", "show"}, {"grep", "-hE", "WARN|ERR", n.dir + "/vswitchd.log", n.dir + "/controller.log"}} {
			out, _ := try(words...)
			n.Logf("%s:\n%s", strings.Join(words, " "), out)
		}
	}
	_, _ = try("ovs-appctl", "-t", n.dir+"/ovs-vswitchd.ctl", "exit", "--cleanup")
	files, _ := filepath.Glob(n.dir + "/*.pid")
	for _, file := range files {
		_, _ = try("pkill", "-F", file)
	}
	n.c.stop()
	nicSet(n, n.pci, "switchdev", "4")
}
