//go:build bench

package arm64

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/test/bench/machine"
	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

const (
	dpu     = "dpu"     // the namespace
	outside = "outside" // the namespace at the other end of the NIC's cable
	driver  = "/sys/bus/pci/drivers/swsim/"
	conf    = "/etc/cni/net.d/10-ovn-kubernetes.conf"
	logs    = "/tmp/"
	// certs are those of the Southbound database, and hostState is apart from the state of the DPU's agent.
	certs, hostState = "/etc/sb", "/var/lib/host/node.json"
)

// host is a host with a DPU, both in this machine.
type host struct {
	*testing.T
	pci, uplink string
	// ended has the name of a daemon that has ended.
	ended chan string
}

// newHost gives the NIC to the DPU, and the functions' netdevs to the host.
func newHost(t *testing.T) *host {
	h := &host{T: t, ended: make(chan string, 10)}
	pfs, err := filepath.Glob(driver + "0000:*")
	if err != nil || len(pfs) != 1 {
		t.Fatalf("want one NIC without VFs: %q, %v", pfs, err)
	}
	h.pci = filepath.Base(pfs[0])
	machine.Run(t, "ip", "netns", "add", dpu)
	machine.Run(t, "ip", "netns", "add", outside)
	h.in("", "link set swsimw0 netns "+outside, "link set eth1 netns "+dpu, "addr add "+vm.OutwardAddress+"/24 dev eth0", "link set eth0 up", "route add default via "+vm.OutwardRouter)
	h.in(outside, "addr add 192.168.50.1/24 dev swsimw0", "addr add fd00:50::1/64 dev swsimw0 nodad", "link set swsimw0 up")
	machine.Run(t, "devlink", "dev", "reload", "pci/"+h.pci, "netns", dpu)
	machine.Run(t, within(dpu, "devlink", "dev", "eswitch", "set", "pci/"+h.pci, "mode", "switchdev")...)
	h.write(driver+h.pci+"/sriov_numvfs", fmt.Sprint(vm.MaxVFsARM64))
	for n := range vm.MaxVFsARM64 {
		link := machine.Run(t, within(dpu, "ls", fmt.Sprintf("/sys/bus/pci/devices/%s/virtfn%d/net", h.pci, n))...)
		h.in(dpu, "link set "+link+" netns 1")
	}
	h.uplink = h.port("p0")
	for _, port := range []string{h.uplink, h.port("pf0vf0"), h.port("pf0vf1")} {
		machine.Run(t, within(dpu, "ethtool", "-K", port, "hw-tc-offload", "on")...)
	}
	h.in(dpu, "link set lo up", "addr add 192.168.50.2/24 dev "+h.uplink, "addr add fd00:50::2/64 dev "+h.uplink+" nodad", "link set "+h.uplink+" up",
		"addr add "+vm.OutwardAddress+"/24 dev eth1", "link set eth1 up", "route add default via "+vm.OutwardRouter)
	h.isNetwork()
	return h
}

// isNetwork gives the NIC the PCI class of one in the eyes of the host: the simulated one has another, and the host
// does not see a netdev of the PF.
func (h *host) isNetwork() {
	h.Helper()
	class := filepath.Join(h.TempDir(), "class")
	h.write(class, "0x020000\n")
	if err := unix.Mount(class, "/sys/bus/pci/devices/"+h.pci+"/class", "", unix.MS_BIND, ""); err != nil {
		h.Fatal(err)
	}
}

// port finds a port of the NIC by the name that the switch gives it.
func (h *host) port(name string) string {
	h.Helper()
	file := machine.Run(h, within(dpu, "sh", "-c", "grep -lsx "+name+" /sys/class/net/*/phys_port_name; true")...)
	if file == "" {
		h.Fatalf("the NIC has no port %s", name)
	}
	return filepath.Base(filepath.Dir(file))
}

// startHost runs the host's agent until the configuration of the network is there for the runtime.
func (h *host) startHost() {
	h.Helper()
	h.daemon("host", "", nil, "ovn-offload-agent", "--mode=host", "--node-name="+*node, "--kubeconfig="+vm.FilesDir+"/host.conf",
		"--cluster-cidrs="+*podSubnets, "--service-cidrs="+*serviceSubnets, "--mtu=1400", `--vf-pools={"resourceList":[]}`,
		fmt.Sprintf("--reserved-vfs=%s#0-%d", h.pci, vm.MaxVFsARM64-1), "--checkpoint="+hostState)
	h.await("the host's agent is ready for pods", func() bool { _, err := os.Stat(conf); return err == nil })
}

// startSwitch starts what runs on a DPU before and beside the agent, with the scripts of the image, and the databases
// behind it. hw-offload is set before Open vSwitch starts, which has no systemd here to restart it.
func (h *host) startSwitch() {
	h.Helper()
	const insert = `["Open_vSwitch",{"op":"insert","table":"Open_vSwitch","row":{"other_config":["map",[["hw-offload","true"]]]}}]`
	h.mkdir("/etc/openvswitch", "/run/ovn", "/run/openvswitch", certs)
	machine.Run(h, "ovsdb-tool", "create", "/etc/openvswitch/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	machine.Run(h, "ovsdb-tool", "transact", "/etc/openvswitch/conf.db", insert)
	h.copy(certs, "tls.crt", "tls.key", "ca.crt", "role")
	h.daemon("sb", dpu, []string{"OVN_CERTS=" + certs}, "ovn-daemon", "sb", "ssl:127.0.0.1:6642")
	h.daemon("ovs", dpu, nil, "ovn-daemon", "ovs", "system")
	for _, name := range []string{"sb", "ovs"} {
		h.await(name+" answers", func() bool { return exec.Command("ovn-daemon", "ready", name).Run() == nil })
	}
	h.daemon("northd", dpu, nil, "ovn-northd", "--ovnnb-db="+*north, "--ovnsb-db=unix:/run/ovn/ovnsb_db.sock", "--unixctl=/run/ovn/ovn-northd.ctl", "-vconsole:info")
	h.daemon("controller", dpu, []string{"OVN_CERTS=/var/lib/ovn-offload/chassis"}, "ovn-daemon", "controller")
}

// startDPU runs the DPU's agent until the host knows that it is ready.
func (h *host) startDPU() {
	h.Helper()
	const joined = "/etc/ovn-offload/host-cluster"
	h.mkdir(joined)
	h.copy(joined, "kubeconfig", "token")
	h.daemon("dpu", dpu, nil, "ovn-offload-agent", "--mode=dpu", "--kubeconfig="+joined+"/kubeconfig", "--sb=ssl:127.0.0.1:6642",
		"--cluster-cidrs="+*podSubnets, "--service-cidrs="+*serviceSubnets, "--gateway-interface="+h.uplink,
		"--gateway-next-hop=192.168.50.1,fd00:50::1", "--dpu-host-controller=0")
	status := pod{host: h}
	h.await("the DPU is ready", func() bool { _, err := status.plugin("STATUS"); return err == nil })
}

// daemon runs a program until the test ends. Its output is in logs, and in that of a test that fails.
func (h *host) daemon(name, ns string, env []string, args ...string) {
	h.Helper()
	if ns != "" {
		args = within(ns, args...)
	}
	log, err := os.Create(logs + name + ".log")
	if err != nil {
		h.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	go func() { _ = cmd.Wait(); h.ended <- name }()
	h.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		if h.Failed() {
			out, _ := exec.Command("tail", "-n", "60", log.Name()).CombinedOutput()
			h.Logf("%s:\n%s", name, out)
		}
	})
}

// await waits for what the daemons do. A daemon that ends fails the test.
func (h *host) await(what string, ok func() bool) {
	h.Helper()
	machine.Eventually(h, what, func() bool {
		select {
		case name := <-h.ended:
			h.Fatalf("%s: %s has ended", what, name)
		default:
		}
		return ok()
	})
}

// interfaces gives the Interfaces of Open vSwitch that are of a pod.
func (h *host) interfaces(pod string) string {
	h.Helper()
	return machine.Run(h, "ovs-vsctl", "--timeout=60", "--bare", "--columns=name", "find", "Interface", "external_ids:iface-id="+*namespace+"_"+pod)
}

// offloaded gives the flows in hardware.
func (h *host) offloaded() string {
	h.Helper()
	return machine.Run(h, "ovs-appctl", "dpctl/dump-flows", "--names", "type=offloaded")
}

// in runs commands of ip(8) in a namespace, the host's when it is "", in one process: processes are slow in here.
func (h *host) in(ns string, commands ...string) {
	h.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	if ns != "" {
		cmd = exec.Command("ip", "-n", ns, "-batch", "-")
	}
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("%q in %s: %v\n%s", commands, ns, err, out)
	}
}

func (h *host) write(file, text string) {
	h.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

func (h *host) mkdir(dirs ...string) {
	h.Helper()
	machine.Run(h, append([]string{"mkdir", "-p"}, dirs...)...)
}

// copy takes files that the machine was given.
func (h *host) copy(dir string, names ...string) {
	h.Helper()
	for _, name := range names {
		machine.Run(h, "cp", filepath.Join(vm.FilesDir, name), dir)
	}
}

// within are the words that run a program in a namespace.
func within(ns string, args ...string) []string {
	return append([]string{"ip", "netns", "exec", ns}, args...)
}

// pod is one of the host, which the API server has already.
type pod struct {
	*host
	name string
}

// pod makes the namespace of a pod, as the runtime does.
func (h *host) pod(name string) pod {
	h.Helper()
	machine.Run(h, "ip", "netns", "add", name)
	return pod{h, name}
}

// plugin runs the CNI plugin of the image as the runtime does. It gives the plugin's answer, or its error.
func (p pod) plugin(command string) (string, error) {
	cmd := exec.Command("ovn-k8s-cni-overlay")
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_PATH=/opt/cni/bin")
	if p.name != "" {
		cmd.Env = append(cmd.Env, "CNI_CONTAINERID=sandbox-"+p.name, "CNI_NETNS=/run/netns/"+p.name, "CNI_IFNAME=eth0",
			"CNI_ARGS=K8S_POD_NAMESPACE="+*namespace+";K8S_POD_NAME="+p.name)
	}
	cmd.Stdin = strings.NewReader(`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay"}`)
	out, err := cmd.Output()
	var said struct{ Msg, Details string }
	if err != nil && json.Unmarshal(out, &said) == nil {
		err = fmt.Errorf("%s %s", said.Msg, said.Details)
	}
	return string(out), err
}

func (p pod) must(command string) {
	p.Helper()
	if out, err := p.plugin(command); err != nil {
		p.Fatalf("%s of %s: %v: %s", command, p.name, err, out)
	}
}

func (p pod) fails(command, reason string) {
	p.Helper()
	if out, err := p.plugin(command); err == nil || !strings.Contains(err.Error(), reason) {
		p.Fatalf("%s of %s: %v, want %q: %s", command, p.name, err, reason, out)
	}
}

// addresses are the global ones of the pod, IPv4 first.
func (p pod) addresses() (all []string) {
	p.Helper()
	for _, word := range strings.Fields(machine.Run(p, "ip", "-n", p.name, "-br", "addr", "show", "dev", "eth0", "scope", "global")) {
		if address, _, is := strings.Cut(word, "/"); is {
			all = append(all, address)
		}
	}
	if len(all) != 2 {
		p.Fatalf("%s has the addresses %q, want one of each family", p.name, all)
	}
	return all
}

// reaches says whether an address answers the pod.
func (p pod) reaches(address string) bool {
	words := within(p.name, "ping", "-n", "-c3", "-i0.2", "-W2", address)
	return exec.Command(words[0], words[1:]...).Run() == nil
}
