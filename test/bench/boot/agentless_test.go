//go:build bench

package boot

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node/unmanaged"
	"github.com/ovn-offload/ovn-offload/test/bench/machine"
)

const (
	outside = "192.0.2.1"
	// observed is how long the external host pings the node once Open vSwitch has its bridge.
	observed = 10 * time.Second
)

// boots is the host with Open vSwitch of the image and the agent's part for the gateway bridge.
type boots struct {
	*host
	ovs    machine.OVS
	agent  machine.Agent
	bridge string
	pinged *machine.Pings
	// powered is when the external host had the first answer.
	powered time.Time
}

// newBoots waits until NetworkManager has given the NIC its address, and has an external host ping that address.
func newBoots(t *testing.T) *boots {
	t.Helper()
	h := newHost(t)
	h.addressed()
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	nodeAddress := netip.MustParsePrefix(address).Addr().String()
	b := &boots{
		host: h, bridge: "br" + h.uplink(),
		ovs: machine.OVS{TB: t, Script: machine.Script(t), Run: "/run/openvswitch", Config: "/etc/openvswitch"},
		agent: machine.Agent{
			NIC: h.uplink(), Address: nodeAddress, Boot: strings.TrimSpace(string(id)),
			Checkpoint: filepath.Join(state, "node.json"), Outside: func(context.Context) error { return nil },
		},
	}
	for _, words := range []string{
		"ip netns add outside", "ip link set swsimw0 netns outside",
		"ip -n outside link set lo up", "ip -n outside link set swsimw0 up",
		"ip -n outside addr add " + outside + "/24 dev swsimw0",
	} {
		h.run(strings.Fields(words)...)
	}
	b.pinged = machine.Ping(t, "outside", nodeAddress)
	b.powered = time.Now()
	return b
}

// takeOver has the agent until the bridge has the address and the external host has answers.
func (b *boots) takeOver() {
	b.Helper()
	if err := unmanaged.Install(b.Context(), "/run", "/sys", []string{b.bridge}); err != nil {
		b.Fatal(err)
	}
	defer b.agent.Run(b, &b.ovs)()
	machine.Eventually(b, "the bridge has the address", func() bool { return machine.Bears(b.bridge, b.agent.Address) })
	b.pinged.Report("until the agent has the NIC", 2*time.Minute)
	if got := b.ovs.Ports(b.bridge); got != b.agent.NIC {
		b.Errorf("ports %q, want %s", got, b.agent.NIC)
	}
}

// withoutAgent starts Open vSwitch and says whether the node answers the external host when it has its bridge.
func (b *boots) withoutAgent() (answers bool) {
	b.Helper()
	b.ovs.Start()
	machine.Eventually(b, "Open vSwitch has its bridge", func() bool {
		_, err := os.Stat("/sys/class/net/" + b.bridge)
		return err == nil
	})
	time.Sleep(observed)
	now := time.Now()
	silence := b.pinged.Silence(b.powered, now)
	b.Logf("without an agent no answer for %s of %s", silence.Round(10*time.Millisecond), now.Sub(b.powered).Round(time.Second))
	if !machine.Bears(b.agent.NIC, b.agent.Address) {
		b.Errorf("the NIC does not have the address: %s", b.try("ip", "-br", "addr"))
	}
	return b.pinged.Silence(now.Add(-observed/2), now) < observed/2
}

// TestBoot4_AgentTakesUplinkOver: the gateway bridge has the NIC and its address.
func TestBoot4_AgentTakesUplinkOver(t *testing.T) {
	b := newBoots(t)
	b.ovs.Start()
	b.takeOver()
}

// TestBoot5_NodeAnswersWithoutAgent: Open vSwitch starts with the database of the takeover, and no agent does. The NIC
// has the address that NetworkManager gives it, and the external host has answers all the time.
func TestBoot5_NodeAnswersWithoutAgent(t *testing.T) {
	b := newBoots(t)
	if !b.withoutAgent() {
		t.Error("the node does not answer")
	}
	if got := b.ovs.Ports(b.bridge); got != "" {
		t.Errorf("the bridge has ports: %s", got)
	}
}

// TestBoot6_AgentTakesUplinkOverAgain: the boot before had no agent.
func TestBoot6_AgentTakesUplinkOverAgain(t *testing.T) {
	b := newBoots(t)
	b.ovs.Start()
	b.takeOver()
}

// TestBoot7_NICInBridgeCutsNodeOff is the control: a start script that leaves the NIC in the bridge. The node does not
// answer until the agent takes the NIC over.
func TestBoot7_NICInBridgeCutsNodeOff(t *testing.T) {
	b := newBoots(t)
	b.ovs.Script = machine.ScriptKeepingPorts(t)
	if b.withoutAgent() {
		t.Error("the node answers")
	}
	if got := b.ovs.Ports(b.bridge); got != b.agent.NIC {
		t.Errorf("ports %q, want %s", got, b.agent.NIC)
	}
	b.takeOver()
}
