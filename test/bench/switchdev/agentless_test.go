//go:build bench

package switchdev

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/test/bench/machine"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// observed is how long the external host pings a node without an agent once OVS answers.
const observed = 5 * time.Second

// bootingHost is a node whose NIC the agent has taken over, and that boots. Of a boot the test has what counts here:
// the processes and the kernel's datapath are gone, the files are there, the id of the boot is another one, and the
// host's own configuration gives the NIC its address.
type bootingHost struct {
	*gatewayHost
	ovs   machine.OVS
	agent machine.Agent
}

// TestBoot_NodeAnswersWithoutAgent: after a boot, Open vSwitch starts with the database of a takeover, and no agent.
// The external host reaches the node all the time. The control is a start script that leaves the NIC in the bridge,
// where nothing answers. The agent takes the NIC over again in both.
func TestBoot_NodeAnswersWithoutAgent(t *testing.T) {
	tier.In(t, "bench")
	h := newBootingHost(t)
	h.ovs.Start()
	h.takeOver("first")
	for _, boot := range []struct {
		id, script, ports string
		answers           bool
	}{
		{id: "second", script: machine.Script(t), answers: true},
		{id: "third, where the NIC stays in the bridge", script: machine.ScriptKeepingPorts(t), ports: h.nic},
	} {
		h.boot(boot.id)
		pinged := machine.Ping(t, "outside", gatewayNode)
		h.ovs.Script = boot.script
		began := time.Now()
		h.ovs.Start()
		machine.Eventually(t, "the bridge has its link", func() bool {
			_, err := os.Stat("/sys/class/net/br" + h.nic)
			return err == nil
		})
		time.Sleep(observed)
		until := time.Now()
		silence := pinged.Silence(began, until).Round(10 * time.Millisecond)
		t.Logf("boot %s: without an agent no answer for %s of %s", boot.id, silence, until.Sub(began).Round(time.Second))
		if got := h.ovs.Ports("br" + h.nic); got != boot.ports {
			t.Errorf("boot %s: ports %q, want %q", boot.id, got, boot.ports)
		}
		answers := pinged.Silence(until.Add(-observed/2), until) < observed/2
		if answers != boot.answers || !machine.Bears(h.nic, gatewayNode) {
			t.Errorf("boot %s: the node answers: %t", boot.id, answers)
		}
		h.takeOver(boot.id)
		pinged.Report("boot "+boot.id+", until the agent has the NIC", time.Minute)
	}
	h.agent.Cleanup(t, &h.ovs)
	if !machine.Bears(h.nic, gatewayNode) {
		t.Error("after the clean-up the NIC has no address")
	}
}

func newBootingHost(t *testing.T) *bootingHost {
	t.Helper()
	pci, dir := nics(t)[0], t.TempDir()
	h := &bootingHost{gatewayHost: &gatewayHost{podNode: &podNode{T: t, pci: pci}, nic: uplinkOf(t, pci)}}
	h.ovs = machine.OVS{TB: t, Script: machine.Script(t), Run: dir + "/run", Config: dir + "/etc", Boot: dir + "/boot_id"}
	h.agent = machine.Agent{
		NIC: h.nic, Address: gatewayNode, Checkpoint: filepath.Join(dir, "node.json"), Outside: reachesOutside,
	}
	write(t, h.ovs.Boot, "first")
	h.cable()
	listen(t, "outside")
	t.Cleanup(func() { run(t, "ip", "addr", "flush", "dev", h.nic) })
	return h
}

// takeOver has the agent until the bridge has the address.
func (h *bootingHost) takeOver(boot string) {
	h.Helper()
	h.agent.Boot = boot
	stop := h.agent.Run(h, &h.ovs)
	defer stop()
	machine.Eventually(h, "the bridge has the address", func() bool {
		return machine.Bears("br"+h.nic, gatewayNode) && reachesOutside(h.Context()) == nil
	})
}

func (h *bootingHost) boot(id string) {
	h.Helper()
	h.ovs.PowerOff()
	write(h, h.ovs.Boot, id)
	run(h, "ip", "addr", "flush", "dev", h.nic)
	run(h, "ip", "addr", "add", gatewayNode+"/24", "dev", h.nic)
	run(h, "ip", "route", "replace", "default", "via", gatewayOutside, "dev", h.nic)
}
