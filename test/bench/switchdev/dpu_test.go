//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestDPU_PodsFromADDToDEL follows pods of a host with a DPU through their lives.
func TestDPU_PodsFromADDToDEL(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	onHost(t, "TestInsideDPU")
}

// onHost runs a test in a process of a host. The second node is its DPU; a
// further namespace is the host, which has the VFs of the NIC. OVS, OVN, the CNI
// server and the NIC are real, so to speak; the API server is in memory and the
// kubelet the test's. Both agents run in the process of the host.
func onHost(t *testing.T, inner string) {
	c := newCluster(t, true)
	c.nb("ls-add", "s1")
	a := &endpoint{name: "a", v4: "10.1.0.11", v6: "fd00:1::11", node: c.nodes[0], vf: 0}
	c.pod(a, 0)
	t.Cleanup(func() { _, _ = try("ip", "netns", "del", "a") })
	c.sync()
	c.onHost(inner)
}

func (c *cluster) onHost(inner string) {
	t := c.t
	t.Helper()
	run(t, "ip", "netns", "add", dpuHost)
	t.Cleanup(func() { _, _ = try("ip", "netns", "del", dpuHost) })
	c.inProcess(dpuHost, inner, c.nodes[1])
}

// inProcess runs a test in a process of a namespace, and tells it of a node.
func (c *cluster) inProcess(ns, inner string, n *ovsNode) {
	c.t.Helper()
	words := inside(ns, os.Args[0], "-test.run=^"+inner+"$", "-test.v", "-test.timeout=40m")
	words = append(words, tier.Args()...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), dpuDir+"="+n.dir, dpuPCI+"="+n.pci, dpuNS+"="+n.name)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		c.t.Fatal(err)
	}
}

func TestInsideDPU(t *testing.T) {
	b := newHandDPUBench(t)
	b.start()
	for _, step := range []func(*dpuBench){testDPUAttach, testDPUNetworks, testDPUReserved, testDPURefused, testDPUAway, testDPURecovery, testDPUOffloadOff, testDPUVFIO} {
		step(b)
	}
}

// testDPUAttach: the whole ADD and DEL of a pod that asks for a VF.
func testDPUAttach(b *dpuBench) {
	web := b.pod(1, b.device(0))
	was := b.host.state(b.device(0))
	web.silent("before ADD")
	b.Logf("ADD took %s", web.must("ADD").Round(time.Millisecond))
	web.must("CHECK")
	web.answers()
	b.dpu.carries(web.port(), func() { _, _ = try(inside("a", "ping", "-c3", "-i", "0.2", "-W1", web.v4)...) })
	link := run(b, "ip", "-n", web.ns, "-d", "addr", "show", "eth0")
	for _, want := range []string{"mtu 1400", web.v4 + "/24", web.v6 + "/64", "parentdev " + b.device(0)} {
		if !strings.Contains(link, want) {
			b.Errorf("eth0 lacks %q:\n%s", want, link)
		}
	}
	b.Logf("DEL took %s", web.must("DEL").Round(time.Millisecond))
	web.must("DEL")
	b.host.idle()
	web.silent("after DEL")
	if port := web.port(); port != "" {
		b.Errorf("after DEL: port %s", port)
	}
	if now := b.host.state(b.device(0)); now != was {
		b.Errorf("the VF is %q, and was %q", now, was)
	}
	pod, err := b.api.CoreV1().Pods("default").Get(b.Context(), web.name, metav1.GetOptions{})
	ok(b, err)
	if left := pod.Annotations[contract.DPUConnectionKey] + pod.Annotations[contract.DPUStatusKey]; left != "" {
		b.Errorf("after DEL: annotations %s", left)
	}
}

// testDPUVFIO: a virtual machine on a VF with vfio has the MAC of its pod, which only the DPU can set.
func testDPUVFIO(b *dpuBench) {
	device, vm := b.device(3), b.pod(30, b.device(3))
	path := "/sys/bus/pci/devices/" + device
	bind := func(driver string) {
		write(b, path+"/driver_override", driver)
		write(b, path+"/driver/unbind", device)
		write(b, "/sys/bus/pci/drivers_probe", device)
	}
	bind("vfio-pci")
	eventually(b, "the host's agent has seen the driver", patience, func() bool { v, err := b.host.live.VF(device); return err == nil && v.VFIO })
	vm.must("ADD")
	vm.must("CHECK")
	representor := vm.port()
	function := func() string { return run(b, inside(b.dpu.name, "devlink", "port", "show", representor)...) }
	if shown := function(); !strings.Contains(shown, "0a:00:00:00:01:1e") {
		b.Errorf("the function lacks the pod's MAC: %s", shown)
	}
	vm.must("DEL")
	b.host.idle()
	if port := vm.port(); port != "" {
		b.Errorf("after DEL: port %s", port)
	}
	if shown := function(); strings.Contains(shown, "0a:00:00:00:01:1e") {
		b.Errorf("after DEL the function has the pod's MAC: %s", shown)
	}
	bind("\n") // the bench's driver makes the netdev in the first namespace, which is not the host's
}

// testDPUReserved: a pod without a VF request gets one of the reserved VFs. Without a free one the pod gets an error.
func testDPUReserved(b *dpuBench) {
	web := b.pod(2)
	web.fails("ADD", cni.CodeDevice, "this node has none that is reserved for such pods")
	var err error
	b.host.reserved, err = vf.ParseSelector(b.pci + "#2")
	ok(b, err)
	web.must("ADD")
	web.answers()
	if claims := b.host.ledger.Claims(); len(claims) != 1 || claims[0].Device != b.device(2) {
		b.Errorf("claims %+v, want the reserved VF's", claims)
	}
	second := b.pod(3)
	second.fails("ADD", cni.CodeDevice, "is held by pod default/"+web.name)
	web.must("DEL")
	b.host.idle()
	second.must("ADD")
	second.answers()
	second.must("DEL")
	b.host.idle()
}

// testDPURefused: what the DPU cannot do is the pod's error, and nothing is left.
func testDPURefused(b *dpuBench) {
	web := b.pod(4, b.device(0))
	run(b, "pkill", "-STOP", "-F", b.dpu.dir+"/ovn-controller.pid")
	b.Cleanup(func() { _, _ = try("pkill", "-CONT", "-F", b.dpu.dir+"/ovn-controller.pid") })
	web.fails("ADD", dpu.CodeRefused, "ovn-controller has not set ovn-installed")
	if port := web.port(); port != "" {
		b.Errorf("after an ADD that failed: port %s", port)
	}
	if claims := b.host.ledger.Claims(); len(claims) > 0 {
		b.Errorf("after an ADD that failed: %+v", claims)
	}
	run(b, "pkill", "-CONT", "-F", b.dpu.dir+"/ovn-controller.pid")
	web.must("ADD")
	web.answers()
	web.must("DEL")
	b.host.idle()
}

// testDPUAway: while the DPU is down, the runtime gets an error at once, and DEL works.
func testDPUAway(b *dpuBench) {
	web, late := b.pod(5, b.device(0)), b.pod(6, b.device(1))
	web.must("ADD")
	b.dpu.stop()
	lease, err := b.api.CoordinationV1().Leases(contract.DPULeaseNamespace).Get(b.Context(), contract.DPULeasePrefix+dpuHost, metav1.GetOptions{})
	ok(b, err)
	second := int32(1) // rather than to wait for 40
	lease.Spec.LeaseDurationSeconds = &second
	_, err = b.api.CoordinationV1().Leases(contract.DPULeaseNamespace).Update(b.Context(), lease, metav1.UpdateOptions{})
	ok(b, err)
	eventually(b, "the host sees it", patience, func() bool { return b.statusError() != nil })
	const reason = "the DPU of this host is not ready: it has not reported for more than 1s"
	if err := b.statusError(); err == nil || err.Code != cnitypes.ErrPluginNotAvailable || err.Msg != reason {
		b.Errorf("STATUS: %v, want code %d and %q", err, cnitypes.ErrPluginNotAvailable, reason)
	}
	late.fails("ADD", cnitypes.ErrTryAgainLater, reason)
	web.answers() // running pods need no agent
	web.must("DEL")
	b.dpu.start()
	eventually(b, "the DPU is ready", patience, func() bool { return b.statusError() == nil })
	eventually(b, "the port of the pod that ended meanwhile is gone", patience, func() bool { return web.port() == "" })
	late.must("ADD")
	late.answers()
	late.must("DEL")
}

// testDPURecovery: restarts and reboots of everything below a running pod.
func testDPURecovery(b *dpuBench) {
	web := b.pod(7, b.device(0))
	web.must("ADD")
	web.answers()
	b.agentRestarts(web)
	b.dpu.restartOVS()
	web.answers()
	b.dpuReboots(web)
	b.hostReboots(web)
}

// agentRestarts: nothing is lost on the way.
func (b *dpuBench) agentRestarts(web *dpuPod) {
	b.Helper()
	stream := exec.Command("ip", "netns", "exec", "a", "ping", "-q", "-i", "0.2", "-c", "40", "-W", "2", web.v4)
	var lost strings.Builder
	stream.Stdout = &lost
	ok(b, stream.Start())
	b.dpu.stop()
	time.Sleep(time.Second)
	b.dpu.start()
	if err := stream.Wait(); err != nil || !strings.Contains(lost.String(), " 0% packet loss") {
		b.Errorf("during the agent's restart: %v: %s", err, lost.String())
	}
}

// dpuReboots: agent, ports and functions disappear, the functions return, and the unchanged pod has its network again.
func (b *dpuBench) dpuReboots(web *dpuPod) {
	b.Helper()
	b.dpu.stop()
	b.noFunctions()
	b.dpu.losePorts()
	b.dpu.start()
	web.status(contract.DPUError)
	web.silent("without its function")
	back := b.functions()
	web.status(contract.DPUReady)
	ready := time.Since(back)
	web.answers()
	traffic := time.Since(back)
	b.Logf("after the return of the functions: port %s, traffic %s", ready.Round(time.Millisecond), traffic.Round(time.Millisecond))
	if traffic > recovery {
		b.Errorf("traffic %s after the return of the functions, want it within %s", traffic, recovery)
	}
}

// hostReboots: functions go and come under a living DPU, and the pod has another
// sandbox and another VF, without a DEL of the first.
func (b *dpuBench) hostReboots(web *dpuPod) {
	b.Helper()
	b.host.stop()
	run(b, "ip", "netns", "del", web.ns)
	b.noFunctions()
	eventually(b, "no port is left", patience, func() bool { return web.port() == "" })
	b.functions()
	run(b, "ip", "netns", "add", web.ns)
	b.host.kubelet.give(web.name, b.device(2))
	web.id = "another"
	b.host.start("boot 2")
	eventually(b, "the DPU is ready", patience, func() bool { return b.statusError() == nil })
	web.must("ADD")
	web.answers()
	if ports := web.port(); len(strings.Fields(ports)) != 1 {
		b.Errorf("ports %q", ports)
	}
	web.must("DEL")
	web.silent("after DEL")
}

// statusError is the answer to CNI STATUS.
func (b *dpuBench) statusError() *cnitypes.Error {
	s := sandbox{T: b.T, socket: b.host.socket()}
	_, _, err := s.call("STATUS")
	return err
}

func (p *dpuPod) fails(command string, code uint, reason string) {
	p.Helper()
	_, took, err := p.call(command)
	if err == nil || err.Code != code || !strings.Contains(err.Msg+err.Details, reason) {
		p.Fatalf("%s of %s: %v, want code %d and %q", command, p.name, err, code, reason)
	}
	p.Logf("%s of %s failed after %s: %v", command, p.name, took.Round(time.Millisecond), err)
}

// offloadOn is what an OffloadPolicy does with representors; OVS asks for it when
// a port is added.
func (d *dpuSide) offloadOn() {
	d.Helper()
	eventually(d, "the inventory has representors", patience, func() bool {
		inv := d.live.Inventory()
		return inv != nil && len(pf(d.T, *inv, d.pci).VFs) == 4
	})
	for _, v := range pf(d.T, *d.live.Inventory(), d.pci).VFs {
		run(d, inside(d.name, "ethtool", "-K", v.Representor.Name, "hw-tc-offload", "on")...)
	}
}

// losePorts is what becomes of the pods' ports when the DPU's OVS begins anew.
func (d *dpuSide) losePorts() {
	d.Helper()
	for _, name := range strings.Fields(d.vsctl("list-ports", "br-int")) {
		if !strings.HasPrefix(name, "ovn-") {
			d.vsctl("--if-exists", "del-port", name)
		}
	}
}

// carries wants traffic that comes from behind a representor in the NIC.
func (d *dpuSide) carries(rep string, traffic func()) {
	d.Helper()
	seen := ""
	d.Cleanup(func() {
		if d.Failed() {
			d.Log(rep, seen)
		}
	})
	eventually(d, "flows are in hardware", patience, func() bool {
		traffic()
		seen = d.offloaded()
		return strings.Contains(seen, fmt.Sprintf("in_port(%s)", rep))
	})
}

// offloaded dumps the flows in hardware.
func (d *dpuSide) offloaded() string {
	d.Helper()
	text, err := unixctl.Client{Dir: d.dir, Daemon: "ovs-vswitchd"}.Call(d.Context(), "dpctl/dump-flows", "--names", "type=offloaded")
	ok(d, err)
	return text
}

func (d *dpuSide) restartOVS() { d.Helper(); restartOVS(d, d.name, d.dir) }

func restartOVS(t testing.TB, ns, dir string) {
	t.Helper()
	run(t, "pkill", "-9", "-F", dir+"/ovs-vswitchd.pid")
	run(t, inside(ns, "env", "OVS_RUNDIR="+dir, "ovs-vswitchd", "unix:"+dir+"/db.sock", "--pidfile", "--log-file="+dir+"/vswitchd.log", "--detach", "-vconsole:off")...)
}

// withoutOffload turns hw-offload off.
func (n *ovsNode) withoutOffload() {
	n.Helper()
	n.vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=false")
	restartOVS(n, n.name, n.dir)
	n.settings = offloading(false)
}

// seen counts packets that came to a representor from its VF.
func (d *dpuSide) seen(rep string) uint64 {
	d.Helper()
	return counter(d.T, d.name, rep, "rx_packets")
}

// testDPUOffloadOff is the control: the same counts without hardware offload. Then the DPU's agent sets hw-offload itself.
func testDPUOffloadOff(b *dpuBench) {
	web := b.pod(9, b.device(0))
	web.must("ADD")
	b.dpu.vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=false")
	b.dpu.restartOVS()
	web.answers()
	received := listen(b.T, "a")
	for network := range received {
		speak(b.T, web.ns, network, "10.1.0.11")
	}
	time.Sleep(2 * time.Second)
	rep := web.port()
	start, before := time.Now(), b.dpu.seen(rep)
	eventually(b, "all of it comes to software", patience, func() bool {
		udp, _ := received["udp"].since(start)
		tcp, _ := received["tcp"].since(start)
		return udp > 20 && tcp > 20 && b.dpu.seen(rep)-before >= uint64(udp+tcp)/10*9
	})
	if flows := b.dpu.offloaded(); flows != "" {
		b.Errorf("in hardware: %s", flows)
	}
	b.dpu.setsOffload()
	web.must("DEL")
}

// setsOffload lets the part of the agent set hw-offload in an OVS without the key, which a service restarts.
func (d *dpuSide) setsOffload() {
	d.Helper()
	running, err := offload.LoadRunning(filepath.Join(d.TempDir(), "running.json"))
	ok(d, err)
	client := unixctl.Client{Dir: d.dir, Daemon: "ovs-vswitchd"}
	sampling := nodeoffload.NewSampling(nodeoffload.SamplingDeps{
		Switch: client, DB: d.db, Running: running, Logger: slog.Default(), Registerer: prometheus.NewRegistry(),
		Inventory: func() *vf.Inventory { return nil },
	})
	event := func(reason, message string) { d.Log(reason, message) }
	agent := setup.NewDPUSwitch(setup.DPUSwitchDeps{
		OVS:  setup.Vswitchd{Client: client, DB: d.db, Observed: sampling.Observed, Links: d.ns, Services: switchService{d}},
		Warn: event, Note: event, Changed: func() {}, Logger: slog.Default(),
	})
	ok(d, agent.Reconcile(d.Context()))
	if agent.Problem() == nil || sampling.Settings().HWOffload {
		d.Errorf("hw-offload is false: problem %v, settings %+v", agent.Problem(), sampling.Settings())
	}
	d.vsctl("remove", "Open_vSwitch", ".", "other_config", "hw-offload")
	eventually(d, "the agent has seen the change", patience, func() bool {
		observed, known := sampling.Observed()
		_, set := observed.OtherConfig[offload.HWOffloadKey]
		return known && !set
	})
	ok(d, agent.Reconcile(d.Context()))
	if s := sampling.Settings(); agent.Problem() != nil || s == nil || !s.HWOffload || s.RestartDue {
		d.Errorf("the agent has set hw-offload: problem %v, settings %+v", agent.Problem(), s)
	}
}

// switchService has the DPU's ovs-vswitchd, which the bench starts without a systemd.
type switchService struct{ d *dpuSide }

func (s switchService) Of(context.Context, int) (string, error) {
	return "openvswitch-switch.service", nil
}

func (s switchService) Restart(context.Context, string) error { s.d.restartOVS(); return nil }
