//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// leftovers finds what the network has made on a node. It prints nothing on a node that is as before.
const leftovers = `ip -br link | grep -oE '^(br-int|br-ex|breth[0-9]+|ovn-k8s-mp0|genev_sys_[0-9]+)\b'
ip -o address | grep -E ' (br-ex|breth[0-9]+|ovn-k8s-mp0) '
nft list tables | grep -i ovn
ls /etc/cni/net.d
ls /sys/fs/bpf 2>/dev/null | grep -i ovn
true`

// role is TestRole_NodeIsCleanedBeforeOVSEnds on the datapath of the kernel.
func (s *smart) role(t *testing.T) {
	for name := range s.pods {
		world.DeletePod(t, s.ns, name)
	}
	changeRole(t, smartNode, 15*time.Minute)
	s.start(t)
	s.reach(t)
}

// removed takes the chart away. The nodes keep their addresses all the time, on the datapath of the kernel too, and nothing
// of the network is left on them. A second installation serves pods again.
func (s *smart) removed(t *testing.T) {
	for name := range s.pods {
		world.DeletePod(t, s.ns, name)
	}
	for _, node := range []string{nodes[1], smartNode} { // the probe sees the network where it is
		if out := world.MustOnNode(t, node, "sh", "-c", leftovers); !strings.Contains(out, "ovn-k8s-mp0") {
			t.Fatalf("%s has no network to remove: %s", node, out)
		}
	}
	node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), smartNode, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lost := pinged(t, node.Status.Addresses[0].Address)
	helm(t, "uninstall", "ovn-offload", "--namespace=ovn-kubernetes", "--wait", "--timeout=10m")
	for _, node := range []string{nodes[0], nodes[1], smartNode} {
		if out := world.MustOnNode(t, node, "sh", "-c", leftovers); out != "" {
			t.Errorf("left on %s:\n%s", node, out)
		}
	}
	lost(t)
	if err := labUp(t.Output(), "--vm-nodes=1"); err != nil {
		t.Fatalf("installing again: %v", err)
	}
	s.start(t)
	s.reach(t)
}

// pinged pings an address from the first node until lost is called, which fails if more than three seconds had no answer. It goes
// on after an error, such as of a neighbor that is not found: with a deadline (-w) ping would end.
func pinged(t *testing.T, address string) (lost func(*testing.T)) {
	t.Helper()
	var pings strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- cluster.Run(&pings, nodes[0], "ping", "-D", "-O", "-i", "0.5", "-W", "2", "-c", "7200", address)
	}()
	return func(t *testing.T) {
		t.Helper()
		_, ended := world.OnNode(nodes[0], "pkill", "-INT", "-x", "ping")
		<-done
		if ended != nil {
			t.Fatalf("ping ended by itself: %s", pings.String())
		}
		n := lossOf(t, pings.String())
		t.Logf("lost pings to %s: %d", address, n)
		if n > 6 {
			t.Errorf("%d pings lost, half a second each:\n%s", n, pings.String())
		}
	}
}

// lossOf reads ping's summary.
func lossOf(t *testing.T, pings string) int {
	t.Helper()
	var sent, received int
	summary := regexp.MustCompile(`\d+ packets transmitted, \d+ received`).FindString(pings)
	if _, err := fmt.Sscanf(summary, "%d packets transmitted, %d received", &sent, &received); err != nil || received == 0 {
		t.Fatalf("no summary of pings: %v: %s", err, pings)
	}
	return sent - received
}

func helm(t *testing.T, args ...string) {
	t.Helper()
	start := time.Now()
	_, config := theLab().Kubectl()
	cmd := exec.Command(filepath.Join(cluster.root, "_output/bin/helm"), append(args, "--kubeconfig="+config)...)
	out, err := cmd.CombinedOutput()
	t.Logf("helm %s: %s\n%s", args[0], time.Since(start).Round(time.Second), out)
	if err != nil {
		t.Fatalf("helm %s: %v", args[0], err)
	}
}
