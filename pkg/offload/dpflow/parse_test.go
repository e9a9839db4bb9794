package dpflow

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse_ReadsFlowsOfEachForm(t *testing.T) {
	cases := []struct {
		name, line string
		want       Flow
		next       []uint32
		outputs    []string
	}{
		{
			name: "3.1, offloaded, tunnel",
			line: "ufid:5d1f6f9a-0000-4000-8000-1234567890ab, skb_priority(0/0),tunnel(tun_id=0x2,src=192.0.2.1,dst=192.0.2.2,ttl=0/0,tp_dst=6081,geneve({class=0x102,type=0x80,len=4,0x10002/0x7fffffff}),flags(+key)),skb_mark(0/0),ct_state(0x22/0x23),recirc_id(0xd0),dp_hash(0/0),in_port(genev_sys_6081),eth(src=00:00:00:00:00:00/00:00:00:00:00:00,dst=00:00:00:00:00:00/00:00:00:00:00:00),eth_type(0x0800), packets:7, bytes:826, used:2.780s, offloaded:yes, dp:tc, actions:set(ipv4(ttl=62)),ct(zone=6,nat),recirc(0xd1)",
			want: Flow{
				UFID: "5d1f6f9a-0000-4000-8000-1234567890ab", InPort: "genev_sys_6081", Recirc: 0xd0,
				CT: CTState{Value: 0x22, Mask: 0x23},
				Match: []Term{
					{"tunnel", "tun_id=0x2,src=192.0.2.1,dst=192.0.2.2,ttl=0/0,tp_dst=6081,geneve({class=0x102,type=0x80,len=4,0x10002/0x7fffffff}),flags(+key)"},
					{"eth_type", "0x0800"},
				},
				Packets: 7, Bytes: 826, Used: 2780 * time.Millisecond, Layer: LayerTC, Offload: Offloaded,
				Actions: []Term{{"set", "ipv4(ttl=62)"}, {"ct", "zone=6,nat"}, {"recirc", "0xd1"}},
			},
			next: []uint32{0xd1},
		},
		{
			name: "terse, with TCP flags",
			line: "recirc_id(0x1),in_port(1),ct_state(+new-est+trk),eth_type(0x86dd), packets:0, bytes:0, used:never, flags:SFP., actions:ct(commit,zone=7),ct_clear,push_vlan(vid=5,pcp=0),2,pop_vlan,drop",
			want: Flow{
				InPort: "1", Recirc: 1, CT: CTState{Value: 0x21, Mask: 0x23}, Used: -1,
				Match:   []Term{{"eth_type", "0x86dd"}},
				Actions: []Term{{"ct", "commit,zone=7"}, {"ct_clear", ""}, {"push_vlan", "vid=5,pcp=0"}, {"2", ""}, {"pop_vlan", ""}, {"drop", ""}},
			},
			outputs: []string{"2"},
		},
		{
			name: "nested actions, an attribute of the future, the datapath's remarks",
			line: "ufid:0, recirc_id(0),in_port(rep0), packets:1, bytes:60, used:0.001s, offloaded:partial, dp:ovs, colour:blue, actions:clone(sample(sample=50.0%,actions(rep1,recirc(0x7))),rep2),check_pkt_len(size=1400,gt(drop),le(recirc(9))),rep3, dp-extra-info:miniflow_bits(5,1)",
			want: Flow{
				UFID: "0", InPort: "rep0", Packets: 1, Bytes: 60, Used: time.Millisecond, Layer: LayerOVS, Offload: Partial,
				Actions: []Term{
					{"clone", "sample(sample=50.0%,actions(rep1,recirc(0x7))),rep2"},
					{"check_pkt_len", "size=1400,gt(drop),le(recirc(9))"}, {"rep3", ""},
				},
			},
			next:    []uint32{7, 9},
			outputs: []string{"rep1", "rep2", "rep3"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.next, got.Next()); diff != "" {
				t.Errorf("next: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.outputs, got.Outputs()); diff != "" {
				t.Errorf("outputs: -want +got\n%s", diff)
			}
		})
	}
}

func TestParse_RefusesMalformedLines(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":            "",
		"no actions":         "in_port(1), packets:1, bytes:1, used:never",
		"no port":            "eth_type(0x0800), packets:1, bytes:1, used:never, actions:drop",
		"open parenthesis":   "in_port(1),eth(src=1, packets:1, actions:drop",
		"closed parenthesis": "in_port(1),eth), packets:1, actions:drop",
		"open action":        "in_port(1), packets:1, actions:ct(zone=1",
		"crossed":            "in_port(1), packets:1, actions:ct(zone=1)x",
		"no number":          "in_port(1), packets:many, actions:drop",
		"no recirculation":   "recirc_id(x),in_port(1), packets:1, actions:drop",
		"a tail cut off":     "in_port(1), packets:1, bytes:60, used:0.0",
	} {
		if f, err := Parse(line); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// The dumps are ovs-vswitchd's own, of Debian 12 and 13, with the same flows and
// packets in both: only the order of terms differs.
func TestParse_RealDumpsOfTwoReleasesAgree(t *testing.T) {
	want := map[string]int{
		"ct(zone=7),recirc": 1, "ct(zone=7,nat),recirc": 1, "hash(l4(0)),recirc": 1, "trunc(100),p2": 1,
		"ct(commit,zone=7,mark=0x2/0xffffffff,nat(src=10.9.9.9)),p2": 1, "p2": 1, "p1": 1, "p3": 1, "p1,p2": 1, "drop": 2,
		"set(eth(src=02:00:00:00:00:99)),set(ipv4(ttl=63)),push_vlan(vid=1,pcp=0),p1": 1,
		"set(ipv6(tclass=0x4/0xfc)),p1,set(ipv6(tclass=0/0xfc)),p2":                   1, "userspace": 1,
	}
	for _, file := range []string{"testdata/dummy-ovs3.1.txt", "testdata/dummy-ovs3.5.txt"} {
		got := map[string]int{}
		for _, f := range parseFile(t, file) {
			if len(f.UFID) != 36 || f.Layer != LayerOVS || f.Offload != NotOffloaded {
				t.Errorf("%s: ufid %s, layer %s, offload %s", file, f.UFID, f.Layer, f.Offload)
			}
			var list []string
			for _, a := range f.Actions {
				switch {
				case a.Args == "" || a.Name == "recirc" || a.Name == "userspace": // ids differ
					list = append(list, a.Name)
				default:
					list = append(list, a.Name+"("+a.Args+")")
				}
			}
			got[strings.Join(list, ",")]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", file, diff)
		}
	}
}

func TestParse_VerboseAndTerseAgree(t *testing.T) {
	verbose, terse := parseFile(t, "testdata/dummy-ovs3.5.txt"), parseFile(t, "testdata/terse-ovs3.5.txt")
	if len(verbose) != len(terse) {
		t.Fatalf("%d and %d flows", len(verbose), len(terse))
	}
	for i, v := range verbose {
		s := terse[i]
		if v.Recirc != s.Recirc || v.Packets != s.Packets || v.Bytes != s.Bytes || len(v.Actions) != len(s.Actions) {
			t.Errorf("%+v\n%+v", v, s)
		}
		for _, bit := range []uint32{CTNew, CTEstablished, CTInvalid, CTTracked} {
			if v.CT.Wants(bit) != s.CT.Wants(bit) {
				t.Errorf("ct_state %+v and %+v", v.CT, s.CT)
			}
		}
		if names(v.Match) != names(s.Match) {
			t.Errorf("matches %q and %q", names(v.Match), names(s.Match))
		}
	}
}

func names(terms []Term) string {
	var list []string
	for _, t := range terms {
		list = append(list, t.Name)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func parseFile(t *testing.T, file string) []Flow {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var flows []Flow
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); Heading(line) {
			continue
		}
		f, err := Parse(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		flows = append(flows, f)
	}
	return flows
}

// FuzzParse: no input breaks it, and what it accepts it gives back whole.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f.Add(strings.TrimSpace(line))
		}
	}
	f.Add("in_port(1), actions:" + strings.Repeat("clone(", 100) + strings.Repeat(")", 100))
	f.Fuzz(func(t *testing.T, line string) {
		flow, err := Parse(line)
		if err != nil {
			return
		}
		if flow.InPort == "" {
			t.Error("a flow from no port")
		}
		for _, term := range append(flow.Match, flow.Actions...) {
			if !strings.Contains(line, term.Name) || !strings.Contains(line, term.Args) {
				t.Errorf("%+v is not in the line", term)
			}
			if strings.ContainsAny(term.Name, "()") && term.Args != "" {
				t.Errorf("%+v is not split", term)
			}
			term.Wild()
			term.Arg("src")
		}
		for _, out := range flow.Outputs() {
			if out == "" || strings.ContainsAny(out, ",=") {
				t.Errorf("output to %q", out)
			}
		}
		flow.Next()
	})
}

func BenchmarkParse(b *testing.B) {
	text, err := os.ReadFile("testdata/dummy-ovs3.5.txt")
	if err != nil {
		b.Fatal(err)
	}
	line := strings.Split(string(text), "\n")[2]
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
