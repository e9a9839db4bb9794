//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// guestImage is what a virtual machine boots: a kernel, and a root file system with the program probe alone.
type guestImage struct{ kernel, initrd string }

func newGuestImage(t *testing.T) guestImage {
	t.Helper()
	shared, err := build.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	cache := build.Cache{Dir: shared, Repo: cluster.root, Say: t.Logf}
	kernel, err := cache.Kernel(t.Context(), build.DefaultPlatform())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, command := range [][]string{
		{"go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "init"), "./test/probe"},
		{"sh", "-c", fmt.Sprintf("cd %s && echo init | cpio -o -H newc --quiet >initrd", dir)},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = cluster.root, append(os.Environ(), "CGO_ENABLED=0") // it has no other file
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	return guestImage{kernel.Image, filepath.Join(dir, "initrd")}
}

// guest is a virtual machine in a pod, whose interface it has by a bridge: net1, or that of the primary network.
type guest struct{ control string }

// start runs QEMU in the namespaces of the pod's network. On a primary network the guest asks for its address by DHCP. With
// incoming, another guest moves here by that socket.
func (i guestImage) start(t *testing.T, pod *corev1.Pod, network *contract.PodNetwork, incoming string) guest {
	t.Helper()
	link, address := "net1", network.Addresses[0].String()
	if network.Role == string(contract.RolePrimary) {
		link, address = contract.PrimaryInterface, "dhcp"
	}
	world.MustInPod(t, pod, "sh", "-ec", `ip link set $1 down; ip addr flush dev $1; ip link set $1 address 02:00:00:00:00:fe
ip link add br1 type bridge; ip link set $1 master br1; ip tuntap add tap1 mode tap; ip link set tap1 master br1
for link in $1 tap1 br1; do ip link set $link up; done`, "sh", link)
	dir := t.TempDir()
	g := guest{filepath.Join(dir, "control")}
	args := []string{
		"--net=/proc/" + processInPod(t, pod) + "/ns/net", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256",
		"-display", "none", "-nodefaults", "-no-user-config", "-serial", "file:" + filepath.Join(dir, "console"),
		"-kernel", i.kernel, "-initrd", i.initrd, "-append",
		fmt.Sprintf("console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off -- guest %s %d vm", address, world.EchoPort),
		"-netdev", "tap,id=net,ifname=tap1,script=no,downscript=no", "-device", "virtio-net-pci,netdev=net,mac=" + network.MAC.String(),
		"-monitor", "unix:" + g.control + ",server=on,wait=off",
	}
	if incoming != "" {
		args = append(args, "-incoming", "unix:"+incoming)
	}
	cmd := exec.Command("nsenter", args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if console, err := os.ReadFile(filepath.Join(dir, "console")); t.Failed() && err == nil {
			t.Logf("QEMU in %s: %s\n%s", pod.Name, complaints.Bytes(), console)
		}
	})
	return g
}

// processInPod is the number on the host of a process with the network of a pod.
func processInPod(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	namespace := strings.TrimSpace(world.MustInPod(t, pod, "readlink", "/proc/self/ns/net"))
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == namespace {
			return strings.Split(link, "/")[2]
		}
	}
	t.Fatalf("no process has the network of pod %s, %s", pod.Name, namespace)
	return ""
}

// do gives the monitor of QEMU a command and returns what it prints.
func (g guest) do(t *testing.T, command string) string {
	t.Helper()
	conn, err := net.Dial("unix", g.control)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	out := bufio.NewReader(conn)
	read := func() (text string) {
		for !strings.HasSuffix(text, "(qemu) ") {
			b, err := out.ReadByte()
			if err != nil {
				t.Fatalf("monitor: %v: %s", err, text)
			}
			text += string(b)
		}
		return text
	}
	read()
	fmt.Fprintln(conn, command)
	return read()
}

// boots waits until a guest, which has no hardware to help it, answers.
func boots(t *testing.T, client *corev1.Pod, address netip.Addr) {
	t.Helper()
	at := netip.AddrPortFrom(address, world.EchoPort).String()
	world.Eventually(t, 4*time.Minute, "the guest answers at "+at, func() (bool, string) {
		out, err := world.InPod(client.Namespace, client.Name, "probe", "dial", "tcp", at)
		return err == nil && strings.HasSuffix(strings.TrimSpace(out), " vm"), out
	})
}

// move has a guest move to another pod while streams to the guest run. None has an answer while its port is off there, and all go
// on afterwards. The guest stands still meanwhile: without hardware's help, QEMU may miss what a guest that runs writes to its
// memory, and the guest's kernel then ends with an error.
func (i guestImage) move(t *testing.T, from guest, target *corev1.Pod, network *contract.PodNetwork, running map[string]*flow) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "incoming")
	to := i.start(t, target, network, socket)
	world.Eventually(t, world.Soon, "QEMU listens",
		func() (bool, string) { _, err := os.Stat(socket); return err == nil, fmt.Sprint(err) })
	from.do(t, "stop")
	from.do(t, "migrate -d unix:"+socket)
	world.Eventually(t, 2*time.Minute, "the guest has moved", func() (bool, string) {
		state := from.do(t, "info migrate")
		return strings.Contains(state, "completed"), state
	})
	to.do(t, "cont")
	var looks sync.WaitGroup
	for name, stream := range running {
		looks.Go(func() {
			if stream.answered(2 * time.Second) {
				t.Errorf("%s is answered while the guest's port is off", name)
			}
		})
	}
	looks.Wait()
	movedTo(t, target)
	t.Logf("the move: %v", ended(t, running))
}

// TestVirtualMachine_InPodsOfItsNetwork: a guest of QEMU is reached by pods at the address of its IPAMClaim, and reaches them.
// It is moved to another node while streams run, which go on, and has the address again when it is started anew. While the
// port of its pod is off, no pod reaches it.
func TestVirtualMachine_InPodsOfItsNetwork(t *testing.T) {
	world.Test(t, world.Primary, world.Disruptive)
	tier.Full(t, "it boots virtual machines; TestVirtualMachine_MovesWithItsAddress is in the gate")
	onlyInLab(t, "it runs QEMU in the namespaces of pods")
	image := newGuestImage(t)
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.77.0.0/24", "allowPersistentIPs": true, "mtu": 1300`)+
		fmt.Sprintf("\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %[1]s, name: db}\nspec: {network: %[1]s.flat, interface: net1}\n", ns))
	launcher := func(name, node string) *corev1.Pod {
		pod, privileged := machinePod(wish{ns, name, node, "[" + selected("flat", `"ipam-claim-reference": "db"`) + "]"}), true
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		world.Create(t, pod)
		return world.WaitPod(t, ns, name, "Running", world.IsRunning)
	}
	source := launcher("source", nodes[1])
	client := allOnNetworks(t, wish{ns, "client", nodes[0], "flat"})["client"]
	own := attachmentOf(t, source, ns+"/flat")
	address := own.Addresses[0].Addr()
	machine := image.start(t, source, own, "")
	boots(t, client, address)

	running := map[string]*flow{}
	for _, network := range []string{"tcp", "udp"} {
		running[network] = startFlow(t, ns, "client", network, netip.AddrPortFrom(address, world.EchoPort))
	}
	target := launcher("target", nodes[2])
	image.move(t, machine, target, own, running)
	world.DeletePod(t, ns, "source")
	waitGone(t, ns, "source")
	world.FromPod(client).AnsweredBy(t, address.String(), "vm")
	world.DeletePod(t, ns, "target")
	waitGone(t, ns, "target")
	world.FromPod(client).Unanswered(t, address.String())

	again := launcher("again", nodes[1])
	if got := addressOn(t, again, ns+"/flat"); got != address {
		t.Errorf("the guest has %s after %s", got, address)
	}
	image.start(t, again, attachmentOf(t, again, ns+"/flat"), "")
	boots(t, client, address)
}

// TestVirtualMachine_GuestMovesOnItsPrimaryNetwork: a guest of QEMU has its address on the primary network by DHCP. It is moved to
// another node while streams of pods run, to its address and to a service, one from the node to which it moves. They have no
// answer while the port is off, and go on afterwards. When the guest is gone, there is no answer.
func TestVirtualMachine_GuestMovesOnItsPrimaryNetwork(t *testing.T) {
	world.Test(t, world.Primary, world.Disruptive)
	tier.Full(t, "it boots virtual machines; TestVirtualMachine_MovesOnItsPrimaryNetwork is in the gate")
	onlyInLab(t, "it runs QEMU in the namespaces of pods")
	if sixes()[0] {
		t.Skip("the guest has IPv4 alone")
	}
	image := newGuestImage(t)
	x := machineTenant(t, "10.88.0.0/24", "fd88::/64")
	launcher := func(name, node string) *corev1.Pod {
		pod, privileged := x.launcherPod(name, node), true
		pod.Annotations[contract.VMAddressKey] = ""
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		world.Create(t, pod)
		return world.WaitPod(t, x.ns, name, "Running", world.IsRunning)
	}
	source, web := launcher("source", nodes[1]), x.machineService(t)
	own := attachmentOf(t, source, x.ns+"/main")
	address := own.Addresses[0].Addr()
	machine := image.start(t, source, own, "")
	boots(t, x.pods[0], address)
	running := map[string]*flow{}
	at := netip.AddrPortFrom(address, world.EchoPort)
	for _, client := range x.pods {
		world.FromPod(client).AnsweredBy(t, address.String(), "vm")
		running["tcp from "+client.Spec.NodeName] = startFlow(t, x.ns, client.Name, "tcp", at)
		running["udp from "+client.Spec.NodeName] = startFlow(t, x.ns, client.Name, "udp", at)
	}
	running["tcp to the service"] = startFlow(t, x.ns, x.pods[0].Name, "tcp",
		netip.AddrPortFrom(world.OfFamily(world.ClusterAddresses(web), address), world.ServicePort))
	target := launcher("target", nodes[2])
	image.move(t, machine, target, own, running)
	world.DeletePod(t, x.ns, "source")
	waitGone(t, x.ns, "source")
	for _, client := range x.pods {
		world.FromPod(client).AnsweredBy(t, address.String(), "vm")
	}
	world.DeletePod(t, x.ns, "target")
	waitGone(t, x.ns, "target")
	world.FromPod(x.pods[0]).Unanswered(t, address.String())
}
