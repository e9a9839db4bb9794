//go:build bench

package switchdev

import (
	"bytes"
	"cmp"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/nodeflows"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	failFlower = "/sys/kernel/debug/swsim/fail_flower"
	noSpace    = "swsim: no space in the flow table"
	cookie     = "36cb538186461caed3b3a986d3727903"
	cookieFlow = "8153cb36-ae1c-4686-86a9-b3d3037972d3"
)

// asked is a rule of a port, in words of tc(8).
type asked struct {
	port, protocol, chain, rule string
	// says is the driver's text; "": it takes the rule.
	says string
}

// rulesToAsk have the actions that Open vSwitch makes of a flow's.
func rulesToAsk(left, right string) map[string]asked {
	ip := func(rule, says string) asked { return asked{left, "ip", "0", rule, says} }
	const elsewhere = "swsim: output device is not on this eswitch"
	to := " action mirred egress redirect dev " + right
	return map[string]asked{
		"to another device":             ip("dst_ip 10.0.0.1 action mirred egress redirect dev far0", elsewhere),
		"to a VF":                       ip("src_mac 0a:00:00:00:00:01 dst_ip 10.0.0.0/24 ip_proto tcp dst_port 80"+to, ""),
		"to two":                        ip("dst_ip 10.0.0.1 action mirred egress mirror dev "+right+" pipe"+to, ""),
		"to two, one of another device": ip("dst_ip 10.0.0.1 action mirred egress mirror dev far0 pipe"+to, elsewhere),
		"nowhere":                       ip("dst_ip 10.0.0.1 action drop", ""),
		"to a later rule":               ip("dst_ip 10.0.0.1 ct_state -trk action ct zone 5 pipe action goto chain 3", ""),
		"after another rule":            {left, "ip", "3", "ip_proto tcp ct_state +trk+est ct_zone 5 ct_mark 0x1/0x1 ct_label 0102/0102" + to, ""},
		"commits":                       {left, "ip", "3", "ip_proto tcp ct_state +trk+est action ct commit zone 5 mark 0x1/0x1 nat src addr 10.0.0.9", "swsim: a connection is only committed in software"},
		"new connections":               {left, "ip", "3", "ip_proto tcp ct_state +trk+new" + to, "swsim: ct_state +new cannot be offloaded"},
		"changes headers": ip("ip_proto tcp action pedit ex munge eth dst set 0a:00:00:00:00:02 munge ip ttl set 63 munge ip dst set 10.0.0.7 pipe"+
			" action csum ip4h and tcp pipe"+to, ""),
		"pushes a VLAN": ip("dst_ip 10.0.0.1 action vlan push id 7 pipe"+to, ""),
		"pops a VLAN":   {left, "802.1q", "0", "vlan_id 7 vlan_ethtype ip action vlan pop pipe" + to, ""},
		"IPv6":          {left, "ipv6", "0", "dst_ip fd00::/64 ip_proto icmpv6 type 128" + to, ""},
		"into a tunnel": ip("dst_ip 10.0.0.1 action tunnel_key set id 5 src_ip 192.0.2.1 dst_ip 192.0.2.2 dst_port 6081 tos 4 ttl 64 geneve_opts 0102:80:00800022 csum pipe"+
			" action mirred egress redirect dev gnv0", ""),
		"out of a tunnel": {"gnv0", "ip", "0", "enc_key_id 5 enc_src_ip 192.0.2.2 enc_dst_ip 192.0.2.1 enc_dst_port 6081 geneve_opts 0102:80:00800022/ffff:ff:ffffffff" +
			" action tunnel_key unset pipe" + to, ""},
		"sets a priority": ip("dst_ip 10.0.0.1 action skbedit priority 3 pipe"+to, "swsim: action is not offloaded"),
		"has a meter":     ip("dst_ip 10.0.0.1 action police rate 1mbit burst 10k conform-exceed drop/pipe"+to, "swsim: action is not offloaded"),
	}
}

// TestAskDriver_HasItsTextForEachAction: a rule is offered once more as it is. The driver says what it says to the same words of
// tc(8), which is the control, and TC has the same rules afterwards. A rule in hardware is not offered.
func TestAskDriver_HasItsTextForEachAction(t *testing.T) {
	tier.In(t, "nic")
	p, _, _ := rulePods(t)
	left, right := p.VFs[0].Representor.Name, p.VFs[1].Representor.Name
	for _, words := range []string{"far0 type dummy", "gnv0 type geneve external dstport 6081"} {
		run(t, append([]string{"ip", "link", "add"}, strings.Fields(words)...)...)
		t.Cleanup(func() { run(t, "ip", "link", "del", strings.Fields(words)[0]) })
	}
	run(t, "ip", "link", "set", "gnv0", "up")
	run(t, "tc", "qdisc", "add", "dev", "gnv0", "ingress")
	host, err := netdev.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for name, c := range rulesToAsk(left, right) {
		t.Run(name, func(t *testing.T) {
			rule := func(priority string, flags ...string) []string {
				words := append([]string{"tc", "filter", "add", "dev", c.port, "ingress", "prio", priority, "protocol", c.protocol, "chain", c.chain, "flower"}, flags...)
				return append(append(words, strings.Fields(c.rule)...), "cookie", cookie)
			}
			write(t, failFlower, "1") // a driver without space refuses what it would take
			run(t, rule("3")...)
			defer func() { run(t, "tc", "filter", "del", "dev", c.port, "ingress", "chain", c.chain) }()
			before := run(t, "tc", "filter", "show", "dev", c.port, "ingress")
			ask := func(says string) {
				t.Helper()
				got, err := tcrule.Offer(host, c.port, cookieFlow)
				if err != nil || got.Taken != (says == "") || got.Text != says {
					t.Errorf("%+v, %v, want %q", got, err, says)
				}
				if after := run(t, "tc", "filter", "show", "dev", c.port, "ingress"); after != before {
					t.Errorf("rules before:\n%s\nafter:\n%s", before, after)
				}
			}
			ask(noSpace)
			write(t, failFlower, "0")
			ask(c.says)
			ask(c.says)
			out := run(t, rule("20", "verbose")...)
			taken := strings.Count(run(t, "tc", "filter", "show", "dev", c.port, "ingress"), "\n  in_hw") == 1
			if taken != (c.says == "") || !strings.Contains(out, c.says) {
				t.Errorf("tc says %q, in hardware: %v, want %q", out, taken, c.says)
			}
			run(t, "tc", "filter", "del", "dev", c.port, "ingress", "prio", "3", "protocol", c.protocol, "chain", c.chain)
			if got, err := tcrule.Offer(host, c.port, cookieFlow); taken && !errors.Is(err, tcrule.ErrInHardware) {
				t.Errorf("in hardware: %+v, %v", got, err)
			}
		})
	}
}

// TestAskDriver_AboutFlowsOfOpenVSwitch: a NIC without space for rules says so about each flow that Open vSwitch offered to it. When it
// has space again, the driver takes the rules of those flows, and of flows that are in hardware it is not asked. Meanwhile the pods'
// traffic goes on, and TC has no rule more than before.
func TestAskDriver_AboutFlowsOfOpenVSwitch(t *testing.T) {
	tier.In(t, "nic")
	tier.Full(t, "the other test asks a driver about each action")
	write(t, failFlower, "1")
	defer write(t, failFlower, "0")
	w := newWorld(t, true)
	a, b := w.pods["a"], w.pods["b"]
	stream(t, a, b.v4)
	pings := exec.Command("ip", inside(a.name, "ping", "-i", "0.1", "-c", "100", b.v4)[1:]...)
	out := &bytes.Buffer{}
	pings.Stdout = out
	if err := pings.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pings.Process.Kill() }()
	time.Sleep(time.Second)
	full, node := a.node.askAll(t)
	if full[noSpace] < 2 || full["taken"] > 0 {
		t.Errorf("of a NIC without space: %v", full)
	}
	write(t, failFlower, "0")
	if got, _ := a.node.askAll(t); got["taken"] < 2 || got[noSpace] > 0 {
		t.Errorf("of a NIC with space: %v", got)
	}
	if err := pings.Wait(); err != nil || !strings.Contains(out.String(), " 0% packet loss") {
		t.Errorf("pings meanwhile: %v\n%s", err, out)
	}
	eventually(t, "a flow is in hardware", time.Minute, func() bool {
		stream(t, a, w.pods["c"].v4)
		flows, err := node.Flows(t.Context(), flowapi.Query{All: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flows.Flows {
			if f.Place != offload.Hardware {
				continue
			}
			got, err := nodeflows.Ask(t.Context(), node, a.node.offer, f.ID)
			if err != nil || got.Problem != "the flow is in hardware" {
				t.Errorf("flow %s in hardware: %+v, %v", f.ID, got, err)
			}
			return true
		}
		return false
	})
	if _, err := nodeflows.Ask(t.Context(), node, a.node.offer, "00000000-0000-0000-0000-000000000000"); !errors.Is(err, flowapi.ErrNoFlow) {
		t.Errorf("a flow that never was: %v", err)
	}
}

// offer offers a rule as the command of the node's agent does.
func (n *ovsNode) offer(link, flow string) (tcrule.Answer, error) {
	ns, err := netdev.Open("/run/netns/" + n.name)
	if err != nil {
		return tcrule.Answer{}, err
	}
	defer ns.Close()
	return tcrule.Offer(ns, link, flow)
}

// askAll asks about each refused flow of a node that has a rule, and counts what the driver says.
func (n *ovsNode) askAll(t *testing.T) (says map[string]int, from *nodeflows.Source) {
	t.Helper()
	from, says = n.source(), map[string]int{}
	flows, err := from.Flows(t.Context(), flowapi.Query{All: true})
	if err != nil {
		t.Fatal(err)
	}
	rules := func(port string) string {
		return run(t, inside(n.name, "tc", "filter", "show", "dev", port, "ingress")...)
	}
	for _, f := range flows.Flows {
		if f.Reason != offload.ReasonRefused {
			continue
		}
		before, began := rules(f.From.Port), time.Now()
		got, err := nodeflows.Ask(t.Context(), from, n.offer, f.ID)
		took, after := time.Since(began), rules(f.From.Port)
		if err != nil {
			t.Errorf("flow %s, %s, %s: %v", f.ID, f.Match, f.Actions, err)
			continue
		}
		says[cmp.Or(got.Text, map[bool]string{true: "taken"}[got.Taken], got.Problem)]++
		if strings.Contains(after, "0x61736b00") || !strings.Contains(before, "flower") { // Open vSwitch makes and deletes rules meanwhile
			t.Errorf("rules before:\n%s\nafter:\n%s", before, after)
		}
		t.Logf("%s at pref %d of %s: taken %v %q %q %s, in %s", f.ID, got.Priority, got.Port, got.Taken, got.Text, got.Error, got.Problem, took.Round(time.Millisecond))
	}
	return says, from
}
