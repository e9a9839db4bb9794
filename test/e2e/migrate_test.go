//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/testbed"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// aliens is what the test imitates of OVN-Kubernetes, and the pods that live through the migration.
const aliens = `
apiVersion: v1
kind: Namespace
metadata: {name: ovn-kubernetes}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ovn-config, namespace: ovn-kubernetes}
data: {net_cidr: 10.240.0.0/12/24, svc_cidr: 10.96.0.0/16, routable_mtu: "1400"}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ovnkube-node, namespace: ovn-kubernetes}
spec:
  selector: {matchLabels: {app: ovnkube-node}}
  template:
    metadata: {labels: {app: ovnkube-node, name: ovnkube-node, component: network, type: infra}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers: [{name: ovnkube-controller, image: "lab-tools:dev", imagePullPolicy: Never, command: [sleep, infinity]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers:
        - {name: main, image: "lab-tools:dev", imagePullPolicy: Never, command: [probe, serve, "8080"], securityContext: {capabilities: {add: [NET_RAW]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 8080}]}
`

// migration is a lab of its own, with another network.
type migration struct {
	testbed.Lab
	nodes []string
}

// TestMigrate_FromBridgeNetwork follows the pages in docs/migrate: a lab with a plain bridge network, and with what is
// imitated of OVN-Kubernetes. The chart refuses while its objects are there. Then files and interfaces of the former
// network are removed, the chart is installed, nodes keep subnets and ids, and pods that are created again reach each other.
func TestMigrate_FromBridgeNetwork(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	tier.Full(t, "it brings up a lab of its own")
	onlyInLab(t, "it makes another one")
	m := newMigration(t)
	m.apply(t, aliens)
	before := m.usable(t)
	m.reaches(t, before, true)
	for i, node := range m.nodes {
		m.kubectl(t, "annotate", "node", node, fmt.Sprintf("k8s.ovn.org/node-id=%d", 7+i),
			fmt.Sprintf(`k8s.ovn.org/node-subnets={"default":["10.244.%d.0/24"]}`, i))
		m.kubectl(t, "annotate", "pod", before[node].name, fmt.Sprintf(
			`k8s.ovn.org/pod-networks={"default":{"ip_addresses":["%s/24"],"mac_address":"%s"}}`, before[node].address,
			contract.MACFromAddress(netip.MustParseAddr(before[node].address))))
	}
	m.refused(t)
	m.kubectl(t, "-n", "ovn-kubernetes", "delete", "daemonset/ovnkube-node", "configmap/ovn-config")
	m.clean(t)
	m.reaches(t, before, false) // the former network is gone
	start := time.Now()
	if out, err := m.install(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.kubectl(t, "-n", "ovn-kubernetes", "rollout", "status", "deployment,daemonset", "--timeout=5m")
	m.kubectl(t, "wait", "--for=condition=Ready", "node", "--all", "--timeout=2m")
	t.Logf("from helm upgrade --install to all nodes Ready: %s", time.Since(start).Round(time.Second))
	m.kept(t, before)
	m.kubectl(t, "delete", "pods", "--all-namespaces", "--field-selector", "spec.hostNetwork=false")
	m.kubectl(t, "rollout", "status", "daemonset/web", "--timeout=2m")
	after := m.web(t)
	m.reaches(t, after, true)
	m.inPod(t, after[m.nodes[0]], "probe", "await", m.kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")+":8080")
}

func newMigration(t *testing.T) migration {
	t.Helper()
	m := migration{testbed.Lab{Root: cluster.root, Name: "migrate"}, nodes[:2]}
	t.Cleanup(func() {
		if err := m.Command(t.Output(), "down"); err != nil {
			t.Error(err)
		}
		os.RemoveAll(m.Workdir())
	})
	if err := m.Command(t.Output(), "up", "--cni=bridge", "--nodes=2", "--families=ipv4"); err != nil {
		t.Fatal(err)
	}
	if err := m.Load(filepath.Join(cluster.root, "_output/image/ovn-offload.tar")); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m migration) try(stdin, program string, args ...string) (string, error) {
	_, config := m.Kubectl()
	cmd := exec.Command(filepath.Join(m.Root, "_output/bin", program), args...)
	cmd.Stdin, cmd.Dir, cmd.Env = strings.NewReader(stdin), m.Root, append(os.Environ(), "KUBECONFIG="+config)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m migration) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.try("", "kubectl", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

func (m migration) apply(t *testing.T, objects string) {
	t.Helper()
	if out, err := m.try(objects, "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// install has the networks of the imitated OVN-Kubernetes. Their first subnet is not one that the nodes have.
func (m migration) install() (string, error) {
	address := "172.18.0.3"
	return m.try("", "helm", "upgrade", "--install", "ovn-offload", "deploy/chart", "--namespace=ovn-kubernetes", "--set=image.tag=dev",
		"--set=apiServer=https://"+address+":6443", "--set=databases.address="+address, "--set=nodes.datapath=netdev",
		"--set=network.podCIDRs={10.240.0.0/12/24}", "--set=network.serviceCIDRs={10.96.0.0/16}")
}

// refused: the chart names OVN-Kubernetes and the page, and changes nothing.
func (m migration) refused(t *testing.T) {
	t.Helper()
	state := func() string {
		return m.kubectl(t, "-n", "ovn-kubernetes", "get", "daemonset,deployment,configmap,serviceaccount,secret", "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation} {.data}{"\n"}{end}`)
	}
	before := state()
	out, err := m.install()
	if err == nil || !strings.Contains(out, "remove it first as docs/migrate/ovn-kubernetes.md says") {
		t.Errorf("the chart is installed over OVN-Kubernetes: %v: %s", err, out)
	}
	if after := state(); after != before {
		t.Errorf("changed objects:\n%s\nbefore:\n%s", after, before)
	}
}

// clean removes what the former network has left on nodes.
func (m migration) clean(t *testing.T) {
	t.Helper()
	for _, node := range m.nodes {
		const left = "rm /etc/cni/net.d/10-bridge.conflist && ip link delete cni0 && ip -4 route flush root 10.244.0.0/16"
		if err := m.Run(t.Output(), node, "sh", "-c", left); err != nil {
			t.Fatalf("cleaning %s: %v", node, err)
		}
	}
}

type migrated struct{ name, address string }

// web gives the pod of each node.
func (m migration) web(t *testing.T) map[string]migrated {
	t.Helper()
	all := map[string]migrated{}
	for line := range strings.Lines(m.kubectl(t, "get", "pods", "-l", "app=web", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name} {.status.podIP}{"\n"}{end}`)) {
		var node string
		var pod migrated
		if _, err := fmt.Sscan(line, &node, &pod.name, &pod.address); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[node] = pod
	}
	if len(all) != len(m.nodes) {
		t.Fatalf("pods: %v", all)
	}
	return all
}

// usable gives the pods of web when none has one of the first addresses of a subnet, which both OVN-Kubernetes and this
// network reserve. Each new pod of the bridge network gets the next address.
func (m migration) usable(t *testing.T) map[string]migrated {
	t.Helper()
	for {
		m.kubectl(t, "rollout", "status", "daemonset/web", "--timeout=2m")
		pods, reserved := m.web(t), false
		for _, pod := range pods {
			reserved = reserved || netip.MustParseAddr(pod.address).As4()[3] < 4
		}
		if !reserved {
			return pods
		}
		m.kubectl(t, "delete", "pods", "-l", "app=web")
	}
}

func (m migration) inPod(t *testing.T, pod migrated, command ...string) {
	t.Helper()
	m.kubectl(t, append([]string{"exec", pod.name, "--"}, command...)...)
}

// reaches pings from each pod to the one of the other node.
func (m migration) reaches(t *testing.T, pods map[string]migrated, want bool) {
	t.Helper()
	for i, node := range m.nodes {
		from, to := pods[node], pods[m.nodes[1-i]]
		out, err := m.try("", "kubectl", "exec", from.name, "--", "ping", "-c", "3", "-W", "2", to.address)
		if got := err == nil; got != want {
			t.Errorf("%s reaches %s: %t, want %t: %s", from.name, to.address, got, want, out)
		}
	}
}

// kept: subnets and ids of nodes, and the addresses in annotations of pods that run.
func (m migration) kept(t *testing.T, before map[string]migrated) {
	t.Helper()
	for i, node := range m.nodes {
		got := m.kubectl(t, "get", "node", node, "-o", `jsonpath={.metadata.annotations.k8s\.ovn\.org/node-subnets} {.metadata.annotations.k8s\.ovn\.org/node-id}`)
		if want := fmt.Sprintf(`{"default":["10.244.%d.0/24"]} %d`, i, 7+i); got != want {
			t.Errorf("%s: %s, want %s", node, got, want)
		}
		pod := before[node]
		world.Eventually(t, world.Soon, pod.name+" keeps "+pod.address+" in its annotation", func() (bool, string) {
			networks := m.kubectl(t, "get", "pod", pod.name, "-o", `jsonpath={.metadata.annotations.k8s\.ovn\.org/pod-networks}`)
			return strings.Contains(networks, pod.address+"/24") && strings.Contains(networks, "gateway_ip"), networks
		})
	}
}
