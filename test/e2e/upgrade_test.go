//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

var upgradeFrom = flag.String("upgrade-from", "", "checkout of an earlier version, with which the lab begins, for TestUpgrade")

// nextTag is of the image of this tree.
const nextTag = "next"

// upgrade is what TestUpgrade looks at after each step: streams between two pods, and a client that a policy refuses.
type upgrade struct {
	ns                       string
	from, to, refused        *corev1.Pod
	target                   netip.AddrPort
	subnets, chassis, config []string
}

// TestUpgrade_EarlierVersionToThisOneAndBack: from the version of -upgrade-from to this one, first the control plane and
// then node by node, and back by helm rollback. Connections go on, but for ovs-vswitchd with the userspace datapath, and a
// policy holds all the time. Settings, subnets, addresses and chassis stay. Between the steps, new pods of all nodes run.
func TestUpgrade_EarlierVersionToThisOneAndBack(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	if *upgradeFrom == "" {
		t.Skip("run by make e2e-upgrade: it begins with an earlier version")
	}
	loadNext(t)
	helm(t, "upgrade", "ovn-offload", filepath.Join(*upgradeFrom, "deploy/chart"), "--namespace="+system, "--reuse-values",
		"--set=logLevel=debug", "--wait", "--timeout=5m")
	u := beginUpgrade(t)

	u.step(t, "control plane, with agents of before", 5*time.Second, func() {
		helm(t, "upgrade", "ovn-offload", filepath.Join(cluster.root, "deploy/chart"), "--namespace="+system, "--force-conflicts",
			"--reset-then-reuse-values", "--set=image.tag="+nextTag, "--set=updateStrategy.type=OnDelete")
		rolledOut(t, "deployment")
	})
	for _, set := range []string{"ovnkube-node", "ovs-node"} {
		if tags := imageTags(t, set); !slices.Equal(tags, []string{"dev"}) {
			t.Fatalf("pods of %s have images %v before they are replaced", set, tags)
		}
	}
	for _, set := range []string{"ovnkube-node", "ovs-node"} {
		gap := 5 * time.Second
		if set == "ovs-node" {
			gap = 2 * time.Minute // the userspace datapath is down with ovs-vswitchd
		}
		u.step(t, set+" of each node", gap, func() {
			for _, node := range nodes {
				replacePod(t, set, node)
			}
		})
		if tags := imageTags(t, set); !slices.Equal(tags, []string{nextTag}) {
			t.Errorf("pods of %s have images %v", set, tags)
		}
	}
	u.step(t, "rollback", 2*time.Minute, func() {
		helm(t, "rollback", "ovn-offload", "--namespace="+system, "--force-conflicts")
		rolledOut(t, "deployment", "daemonset")
	})
	u.step(t, "upgrade of everything at once", 2*time.Minute, func() {
		helm(t, "upgrade", "ovn-offload", filepath.Join(cluster.root, "deploy/chart"), "--namespace="+system, "--force-conflicts",
			"--reset-then-reuse-values", "--set=image.tag="+nextTag)
		rolledOut(t, "deployment", "daemonset")
	})
}

// loadNext gives the nodes the image of this tree, beside that of before.
func loadNext(t *testing.T) {
	t.Helper()
	set, err := cluster.client.AppsV1().DaemonSets(system).Get(t.Context(), "ovnkube-node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	repository := strings.TrimSuffix(set.Spec.Template.Spec.Containers[0].Image, ":dev")
	tar := filepath.Join(t.TempDir(), "next.tar")
	build := exec.Command("go", "run", "./hack/image", "-tag", repository+":"+nextTag, "-out", tar)
	build.Dir = cluster.root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("making the image: %v: %s", err, out)
	}
	if err := cluster.Load(tar); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(tar); err != nil {
		t.Fatal(err)
	}
}

func beginUpgrade(t *testing.T) *upgrade {
	t.Helper()
	u := &upgrade{ns: world.Namespace(t)}
	u.from, u.to, u.refused = world.Pod(u.ns, "from", nodes[1]), world.Pod(u.ns, "to", nodes[2]), world.Pod(u.ns,
		"refused", nodes[0])
	world.Run(t, u.from, u.to, u.refused)
	u.target = netip.AddrPortFrom(world.Addresses(u.to)[0], world.EchoPort)
	world.Reaches(t, u.refused, true, u.target)
	world.CreatePolicy(t, u.ns, "only-from", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "to"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "from"}},
		}}}},
	})
	world.Reaches(t, u.refused, false, u.target)
	u.subnets, u.chassis, u.config = u.state(t)
	return u
}

// state is what an upgrade must not change.
func (u *upgrade) state(t *testing.T) (subnets, chassis, config []string) {
	t.Helper()
	for _, name := range nodes {
		node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		chassis = append(chassis, node.Annotations[contract.NodeChassisIDKey])
	}
	settings, err := cluster.client.CoreV1().ConfigMaps(system).Get(t.Context(), "ovn-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"log_level", "net_cidr", "svc_cidr", "datapath", "k8s_apiserver"} {
		config = append(config, key+"="+settings.Data[key])
	}
	return nodeSubnets(t, nodes), chassis, config
}

// step changes the installation under load, and says how long that took and what became of the connections.
func (u *upgrade) step(t *testing.T, name string, gap time.Duration, change func()) {
	t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
		flows := map[string]*flow{}
		for _, network := range []string{"tcp", "udp"} {
			flows[network] = startFlow(t, u.ns, u.from.Name, network, u.target)
		}
		witness := withinPod(t, u.from)
		start, stop := time.Now(), u.trying()
		change()
		took := time.Since(start)
		if tries, answered := stop(); tries == 0 || answered > 0 {
			t.Errorf("the client that the policy refuses was answered %d times of %d", answered, tries)
		}
		witnessed := witness.stop()
		for network, f := range flows {
			survives := f.answered(30 * time.Second)
			silence := f.stop()
			t.Logf("%s: took %s; %s survives %t, longest silence %s", name, took.Round(time.Second), network, survives, silence.Round(time.Millisecond))
			if silence > longestAllowed(gap, witnessed) || !survives && gap <= 5*time.Second {
				t.Errorf("%s survives %t, longest silence %s, want at most %s; the witness had no answer for %s", network, survives, silence, gap, witnessed)
			}
		}
		subnets, chassis, config := u.state(t)
		if got, want := fmt.Sprint(subnets, chassis, config), fmt.Sprint(u.subnets, u.chassis, u.config); got != want {
			t.Errorf("it is now %s, was %s", got, want)
		}
		for _, pod := range []*corev1.Pod{u.from, u.to, u.refused} {
			unchangedPod(t, pod)
		}
		world.Reaches(t, u.from, true, u.target)
		world.Reaches(t, u.refused, false, u.target)
		for i, node := range nodes { // the pair of versions serves new pods
			pod := world.Run(t, world.Pod(u.ns, fmt.Sprintf("new-%d-%d", time.Now().Unix(), i), node))[0]
			world.MustInPod(t, u.refused, "probe", "dial", "tcp",
				netip.AddrPortFrom(world.Addresses(pod)[0], world.EchoPort).String())
			world.DeletePod(t, u.ns, pod.Name)
		}
	})
}

// trying has the refused client try all the time; stop says how often, and how often it was answered.
func (u *upgrade) trying() (stop func() (tries, answered int)) {
	done, ended := make(chan struct{}), make(chan struct{})
	var tries, answered int
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
			if got, err := world.FromPod(u.refused).Reached("tcp:" + u.target.String()); err == nil {
				tries++
				answered += len(got)
			}
		}
	}()
	return func() (int, int) {
		close(done)
		<-ended
		return tries, answered
	}
}

// rolledOut waits for all workloads of the kinds.
func rolledOut(t *testing.T, kinds ...string) {
	t.Helper()
	names, err := kubectl(t, "", "get", strings.Join(kinds, ","), "-n", system, "-o", "name")
	if err != nil {
		t.Fatal(err, names)
	}
	for name := range strings.FieldsSeq(names) {
		if out, err := kubectl(t, "", "rollout", "status", "-n", system, name, "--timeout=8m"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// imageTags are those of the pods of a DaemonSet, each once.
func imageTags(t *testing.T, app string) (tags []string) {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		image := pod.Spec.Containers[0].Image
		tags = append(tags, image[strings.LastIndex(image, ":")+1:])
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// replacePod deletes a node's pod of a DaemonSet and waits until the next one is ready.
func replacePod(t *testing.T, app, node string) {
	t.Helper()
	start := time.Now()
	of := metav1.ListOptions{LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=" + node}
	before, err := cluster.client.CoreV1().Pods(system).List(t.Context(), of)
	if err != nil || len(before.Items) != 1 {
		t.Fatalf("%d pods of %s on %s, %v", len(before.Items), app, node, err)
	}
	world.DeletePod(t, system, before.Items[0].Name)
	world.Eventually(t, 3*time.Minute, app+" of "+node+" is ready again", func() (bool, string) {
		now, err := cluster.client.CoreV1().Pods(system).List(t.Context(), of)
		if err != nil {
			return false, err.Error()
		}
		return len(now.Items) == 1 && now.Items[0].UID != before.Items[0].UID && isReady(now.Items[0]), fmt.Sprint(now.Items)
	})
	t.Logf("%s of %s was replaced within %s", app, node, time.Since(start).Round(100*time.Millisecond))
}
