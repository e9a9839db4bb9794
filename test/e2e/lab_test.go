//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestLab_DownLeavesNothing: a second lab beside the first, killed half-way up, is
// removed by `down` without a trace, and the first goes on.
func TestLab_DownLeavesNothing(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive, world.Strict)
	tier.Full(t, "it is about the lab")
	onlyInLab(t, "it makes another one")
	const name = "passing"
	dir := filepath.Join(cluster.root, "_output", name)
	t.Cleanup(func() { os.RemoveAll(dir) })
	before := machineState(t)
	for _, later := range []time.Duration{0, 3 * time.Second} {
		t.Run(fmt.Sprintf("killed %s after its first trace", later), func(t *testing.T) {
			up := exec.Command(theLab().Binary(), "up", "--name="+name, "--nodes=1", "--cni=bridge")
			up.Dir, up.Stdout = cluster.root, io.Discard
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			world.Eventually(t, 10*time.Minute, "the lab has left a trace", func() (bool, string) {
				return !slices.Equal(machineState(t), before), ""
			})
			time.Sleep(later) // another moment
			up.Process.Kill()
			up.Wait()
			down := exec.Command(theLab().Binary(), "down", "--name="+name)
			down.Dir = cluster.root
			if out, err := down.CombinedOutput(); err != nil {
				t.Fatalf("down: %v: %s", err, out)
			}
			if after := machineState(t); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		})
	}
	if out, err := world.OnNode(nodes[1], "true"); err != nil {
		t.Errorf("the first lab suffered: %v: %s", err, out)
	}
}

// machineState is what labs could leave on the machine: processes of a lab (by
// the lab's name in their arguments), mounts, links and routes.
func machineState(t *testing.T) []string {
	t.Helper()
	var state []string
	for _, command := range []string{
		"ps -eo args | grep -F 'machine run' | grep -F passing | grep -v grep || true",
		"cut -d' ' -f5 /proc/self/mountinfo",
		"ls /sys/class/net",
		"ip route show table all",
		"ls -d /sys/fs/cgroup/*/*passing* 2>/dev/null || true",
	} {
		out, err := exec.Command("sh", "-c", command).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		state = append(state, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	return state
}
