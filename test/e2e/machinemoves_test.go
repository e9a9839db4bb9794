//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// claims are IPAMClaims of networks, as KubeVirt makes them for the interfaces of a virtual machine.
func claims(ns string, networks map[string]string) (text string) {
	for name, network := range networks {
		text += fmt.Sprintf("\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %s, name: %s}\nspec: {network: %s, interface: net1}\n---", ns, name, network)
	}
	return text
}

// machineTenant is a tenant with a network of topology layer2 that keeps the addresses of virtual machines.
func machineTenant(t *testing.T, four, six string) tenant {
	t.Helper()
	subnets := map[string]string{"ipv4": four, "dual": four + ", '" + six + "'", "ipv6": "'" + six + "'"}[*families]
	x := tenantWith(t, "{topology: Layer2, layer2: {role: Primary, mtu: 1300, subnets: ["+subnets+"], ipam: {lifecycle: Persistent}}}")
	apply(t, claims(x.ns, map[string]string{"db": x.ns + "_main"}))
	return x
}

// launcherPod is a pod of the virtual machine db on the primary network.
func (x tenant) launcherPod(name, node string) *corev1.Pod {
	pod := world.Pod(x.ns, name, node, world.Named())
	pod.Labels[contract.VMLabel] = "db"
	pod.Annotations = map[string]string{contract.DefaultNetworkKey: `[{"name":"default","namespace":"ovn-kubernetes","ipam-claim-reference":"db"}]`}
	return pod
}

// launcher makes a launcherPod.
func (x tenant) launcher(t *testing.T, name, node string) *corev1.Pod {
	t.Helper()
	world.Create(t, x.launcherPod(name, node))
	return world.Running(t, x.ns, name)
}

// machineService has the pods of the virtual machine db as endpoints.
func (x tenant) machineService(t *testing.T) *corev1.Service {
	t.Helper()
	return world.Service(t, x.ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Selector = corev1.ServiceTypeNodePort, map[string]string{contract.VMLabel: "db"}
	})
}

// routerOf is the MAC of the router of a pod's network, which answers the pod at each gateway.
func routerOf(t *testing.T, pod *corev1.Pod, network *contract.PodNetwork) (mac string) {
	t.Helper()
	for _, gateway := range network.Gateways {
		world.MustInPod(t, pod, "ping", "-c1", "-w10", "-I", contract.PrimaryInterface, gateway.String())
		seen := strings.Fields(world.MustInPod(t, pod, "ip", "neigh", "show", gateway.String(), "dev", contract.PrimaryInterface))
		at := slices.Index(seen, "lladdr") + 1
		if at == 0 || mac != "" && seen[at] != mac {
			t.Fatalf("neighbor %s: %q, before %s", gateway, seen, mac)
		}
		mac = seen[at]
	}
	return mac
}

// TestVirtualMachine_MovesOnItsPrimaryNetwork: the virtual machine has its addresses and its MAC on the node to which it moves,
// and the router answers it there with the same MAC. Until then the source alone answers pods, and an external host at the
// node port of a third node; the target has no answer of a pod or of the router. Afterwards it is the other way around.
func TestVirtualMachine_MovesOnItsPrimaryNetwork(t *testing.T) {
	world.Test(t, world.Primary, world.Core)
	x := machineTenant(t, "10.84.0.0/24", "fd84::/64")
	source, web := x.launcher(t, "source", nodes[1]), x.machineService(t)
	own := attachmentOf(t, source, x.ns+"/main")
	hop := routerOf(t, source, own)
	client := x.pods[1] // on the node to which it moves
	answers := func(name string) {
		t.Helper()
		for _, address := range own.Addresses {
			world.FromPod(client).AnsweredBy(t, address.Addr().String(), name)
			at := netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, nodes[0]), address.Addr()),
				uint16(web.Spec.Ports[0].NodePort)).String()
			world.Eventually(t, world.ServiceWithin, "the external host has an answer of "+name+" at "+at, func() (bool, string) {
				got, err := world.FromNode(outside).Ask("tcp", at)
				return err == nil && got.Server == name, fmt.Sprint(got, err)
			})
		}
	}
	cutOff := func(pod, other *corev1.Pod) {
		t.Helper()
		world.Reaches(t, pod, false, x.echoes(t, 0)...)
		for _, gateway := range own.Gateways {
			ping := world.Pings([]string{"-I", contract.PrimaryInterface, gateway.String()})
			world.FailsBeside(t, "the router answers "+pod.Name, world.FromPod(pod).Tries(ping...),
				world.FromPod(other).Tries(ping...))
		}
	}
	answers("source")
	target := x.launcher(t, "target", nodes[2])
	if got := attachmentOf(t, target, x.ns+"/main"); got.MAC.String() != own.MAC.String() || !slices.Equal(got.Addresses, own.Addresses) {
		t.Errorf("the target has %s %v, the source %s %v", got.MAC, got.Addresses, own.MAC, own.Addresses)
	}
	answers("source")
	cutOff(target, source)
	world.Reaches(t, source, true, x.echoes(t, 0)...)

	movedTo(t, target)
	answers("target")
	if got := routerOf(t, target, own); got != hop {
		t.Errorf("the router has the MAC %s at the target, and %s at the source", got, hop)
	}
	world.Reaches(t, target, true, x.echoes(t, 0)...)
	cutOff(source, target)
	world.DeletePod(t, x.ns, "source")
	waitGone(t, x.ns, "source")
	answers("target")
	routerOf(t, target, own)
}

// onFour are interfaces of the virtual machine db, or of its client, on networks of two topologies, with and without subnets.
func onFour(claimed bool, mac, host string) string {
	wants := func(claim string) string {
		if !claimed {
			return ""
		}
		return fmt.Sprintf(`"ipam-claim-reference": %q`, claim)
	}
	bare := func(subnet string) string { return fmt.Sprintf(`"mac": %q, "ips": ["%s.%s/24"]`, mac, subnet, host) }
	return "[" + strings.Join([]string{selected("flat", wants("db.flat")), selected("bare", bare("10.85.1")), selected("lan", wants("db.lan")), selected("barelan", bare("10.85.3"))}, ", ") + "]"
}

// TestVirtualMachine_FailedMoveKeepsItsSource: a virtual machine on four networks is to move. The pod that it is to move to is
// deleted, and another one ends with an error. The rows of the source do not change, it alone answers, and its TCP connections
// go on, as those to another pod do. The third attempt succeeds: the target answers then, and the connections end.
func TestVirtualMachine_FailedMoveKeepsItsSource(t *testing.T) {
	world.Test(t, world.Primary)
	ns := world.Namespace(t)
	const localnet = `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": `
	apply(t, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.85.0.0/24", "allowPersistentIPs": true`)+networkOf(ns, "bare", `"topology": "layer2"`)+
		networkOf(ns, "lan", localnet+`81, "subnets": "10.85.2.0/24", "allowPersistentIPs": true`)+networkOf(ns, "barelan", localnet+`82`)+
		claims(ns, map[string]string{"db.flat": ns + ".flat", "db.lan": ns + ".lan"}))
	launcher := func(name, node string) *corev1.Pod {
		world.Create(t, machinePod(wish{ns, name, node, onFour(true, "02:85:00:00:00:01", "1")}))
		return world.Running(t, ns, name)
	}
	source := launcher("source", nodes[1])
	client := allOnNetworks(t, wish{ns, "client", nodes[0], onFour(false, "02:85:00:00:00:02", "2")}, wish{ns, "witness", nodes[1], onFour(false, "02:85:00:00:00:03", "3")})["client"]
	witness := world.WaitPod(t, ns, "witness", "Running", world.IsRunning)
	targets, witnesses, own := map[string]netip.AddrPort{}, map[string]netip.AddrPort{}, []string{}
	var ends []string
	for _, network := range []string{"flat", "bare", "lan", "barelan"} {
		at := netip.AddrPortFrom(furtherAddress(t, source, network), world.EchoPort)
		witnesses["tcp "+network] = netip.AddrPortFrom(furtherAddress(t, witness, network), world.EchoPort)
		targets["tcp "+network], ends, own = at, append(ends, "tcp:"+at.String(), "udp:"+at.String()), append(own, furtherAddress(t, client, network).String())
	}
	connect := func(targets map[string]netip.AddrPort) map[string]*flow {
		all := map[string]*flow{}
		for name, at := range targets {
			all[name] = startFlow(t, ns, "client", "tcp", at)
		}
		return all
	}
	running, beside := connect(targets), connect(witnesses)
	rows := portsOf(t, ns+"_source")
	answeredBySource := func() {
		t.Helper()
		for line := range strings.Lines(world.MustInPod(t, client,
			append([]string{"probe", "count", "5", world.LongPatience}, ends...)...)) {
			if !strings.Contains(line, " 5 ") || !strings.HasSuffix(line, " source\n") {
				t.Errorf("the client counts %q, want 5 answers of the source", line)
			}
		}
		if now := portsOf(t, ns+"_source"); now != rows {
			t.Errorf("the source has the ports\n%s\nand had\n%s", now, rows)
		}
	}
	attempt := func(name string) *corev1.Pod {
		t.Helper()
		target := launcher(name, nodes[2])
		for _, address := range own {
			world.FromPod(target).Unanswered(t, address)
		}
		answeredBySource()
		return target
	}
	attempt("first")
	world.DeletePod(t, ns, "first")
	waitGone(t, ns, "first")
	answeredBySource()
	attempt("second")
	_, _ = world.InPod(ns, "second", "sh", "-c", "kill 1") // it may end with the container's first process, before it answers
	world.WaitPod(t, ns, "second", "Failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	world.Eventually(t, world.Soon, "the failed pod has no port",
		func() (bool, string) { left := portsOf(t, ns+"_second"); return left == "", left })
	answeredBySource()

	third := attempt("third")
	fates, witnessed := ended(t, running), ended(t, beside)
	if wrong := interrupted(fates, longestAllowed(longPause, longestSilence(witnessed))); len(wrong) > 0 {
		t.Errorf("interrupted: %q; the witness %v", wrong, witnessed)
	}
	running = connect(targets)
	movedTo(t, third)
	for _, at := range targets {
		world.FromPod(client).AnsweredBy(t, at.Addr().String(), "third")
	}
	wantEnds(t, withinPod(t, client), slices.Collect(maps.Values(running))...)
}

// portsOf are the rows of a pod's ports on further networks, as far as they decide about its packets.
func portsOf(t *testing.T, pod string) string {
	t.Helper()
	var rows []string
	for line := range strings.Lines(nbctl(t, "--format=csv", "--no-headings", "--columns=name,_uuid,enabled,addresses,port_security,options", "list", "Logical_Switch_Port")) {
		if name, _, _ := strings.Cut(line, ","); strings.HasSuffix(strings.Trim(name, `"`), "_"+pod) {
			rows = append(rows, line)
		}
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}
