package nodeflows

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// traced is the answer of Open vSwitch 3.5, shortened.
const traced = `Flow: udp,in_port=1,vlan_tci=0x0000,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1,tp_dst=2

bridge("br0")
-------------
    thaw
        Resuming from table 2
 0. ip,in_port=1, priority 7, cookie 0x1234abcd
    resubmit(,1)
 1. ip,nw_dst=10.0.0.2, priority 100, cookie 0x77
    set_field:0x6->metadata
    ct(table=2)
    drop
     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 2.
40. priority 0
    drop

Final flow: unchanged
Megaflow: recirc_id=0,eth,ip,in_port=1,nw_dst=10.0.0.2,nw_frag=no
Datapath actions: ct,recirc(0x1)

recirc(0x1) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
 2. ip, priority 100, cookie 0x78
    output:2
`

func TestParseTrace_RulesUpToRecirculation(t *testing.T) {
	want := []flowapi.Rule{
		{Cookie: 0x1234abcd, Rule: "priority=7,ip,in_port=1,actions=resubmit(,1)"},
		{Cookie: 0x77, Table: 1, Rule: "priority=100,ip,nw_dst=10.0.0.2,actions=set_field:0x6->metadata,ct(table=2),drop"},
		{Table: 40, Rule: "priority=0,actions=drop"},
	}
	if diff := cmp.Diff(want, parseTrace(traced)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if rules := parseTrace("no bridge: unknown"); rules != nil {
		t.Errorf("%+v", rules)
	}
}

// TestParseTrace_PacketThatComesBackToAGroup: the answer of Open vSwitch 3.5 about a flow of a service with several endpoints.
func TestParseTrace_PacketThatComesBackToAGroup(t *testing.T) {
	const resumed = `bridge("breth0")
----------------
    thaw
            Resuming from table 0
        Restoring actions: unroll_xlate(table=17, cookie=3229229776),group:3
    unroll_xlate(table=17, cookie=3229229776)
    restored state: table=17, cookie=0xd0227ac000000000
    group:3
     -> using bucket 1

Final flow: recirc_id=0x3c
`
	want := []flowapi.Rule{{Cookie: 0xc07a22d0, Table: 17, Rule: "resumed in a group,actions=group:3"}}
	if diff := cmp.Diff(want, parseTrace(resumed)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if rules := parseTrace(strings.ReplaceAll(resumed, "3229229776", "18446744073709551615")); rules != nil { // of no rule
		t.Errorf("%+v", rules)
	}
}

// TestWhy_NamesPortsByTheirNumbers: ovs-vswitchd reads a name that begins with a digit as a number, and finds a syntax error.
func TestWhy_NamesPortsByTheirNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shown = "system@ovs-system: hit:1 missed:2\n  br-int:\n    br-int 65534/3: (internal)\n    eth0 8/5: (system)\n    patch 2/none: (patch: peer=p)\n"
		v := &vswitchd{trace: traced, ports: shown, detrace: func([]string) (string, error) { return "Cache was not found\n", nil }}
		if _, err := testSource(v).Why(t.Context(), "aaaaaaaa-0000-0000-0000-000000000004"); err != nil {
			t.Fatal(err)
		}
		if want := "recirc_id(0),in_port(5),eth_type(0x0806),arp(sip=172.18.0.1,tip=172.18.0.3,op=1/0xff)"; len(v.tracing) != 1 || v.tracing[0] != want {
			t.Errorf("traced %q", v.tracing)
		}
	})
}

// TestTraceable_HasTheWordsOfTheParser: ovs-vswitchd 3.5 writes other words for the ports of ct_tuple6 than it reads.
func TestTraceable_HasTheWordsOfTheParser(t *testing.T) {
	const written = "in_port(1e67),ct_tuple6(src=fd61::3/::,dst=fd61::5/::,proto=17/0,src_port=50706/0,dst_port=8080/0),udp(src=50706/0,dst=8080/0)"
	const want = "in_port(17),ct_tuple6(src=fd61::3/::,dst=fd61::5/::,proto=17/0,tp_src=50706/0,tp_dst=8080/0),udp(src=50706/0,dst=8080/0)"
	if got := traceable(written, map[string]string{"1e67": "17"}); got != want {
		t.Error(got)
	}
}

// TestWhy_ReconstructsRulesOfOnePacket: ovs-vswitchd never knows the rules of a flow that had one packet.
func TestWhy_ReconstructsRulesOfOnePacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const single, ended = "aaaaaaaa-0000-0000-0000-000000000004", "aaaaaaaa-0000-0000-0000-000000000003"
		v := &vswitchd{trace: traced, detrace: func([]string) (string, error) { return "Cache was not found\n", nil }}
		why, err := testSource(v).Why(t.Context(), single)
		if err != nil || !why.Reconstructed || why.Problem != "" || len(why.Rules) != 3 {
			t.Fatalf("%+v, %v", why, err)
		}
		if want := "recirc_id(0),in_port(eth0),eth_type(0x0806),arp(sip=172.18.0.1,tip=172.18.0.3,op=1/0xff)"; len(v.tracing) != 1 || v.tracing[0] != want {
			t.Errorf("traced %q", v.tracing)
		}
		v.detrace = func([]string) (string, error) { return "UFID was not found for system@ovs-system\n", nil }
		if why, err = testSource(v).Why(t.Context(), ended); err != nil || !why.Reconstructed || why.Problem != "" {
			t.Errorf("a flow that has ended: %+v, %v", why, err)
		}
		v.trace = "" // its match is of no bridge any more
		if why, err = testSource(v).Why(t.Context(), single); err != nil || why.Reconstructed || !strings.HasSuffix(why.Problem, "it has ended, and the flows before it have ended") {
			t.Errorf("%+v, %v", why, err)
		}
	})
}
