package flows

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// dummySwitch is an ovs-vswitchd with dummy devices: no root, no kernel. Its bridge has
// the uplink 1, the router 2 and a further port 3.
type dummySwitch struct {
	t   *testing.T
	dir string
}

func newDummySwitch(t *testing.T) *dummySwitch {
	t.Helper()
	ovsdbtest.Need(t, "ovsdb-server", "ovs-vswitchd", "ovs-ofctl", "ovs-vsctl", "ovs-appctl")
	dir, err := os.MkdirTemp("", "tr") // short: a socket's path has 108 bytes
	nodetest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("OVS_RUNDIR", dir)
	s := &dummySwitch{t, dir}
	db := "unix:" + dir + "/db.sock"
	s.run("ovsdb-tool", "create", dir+"/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	s.start("ovsdb-server", "--remote=punix:"+dir+"/db.sock", dir+"/conf.db")
	s.await("db.sock")
	s.run("ovs-vsctl", "--no-wait", "--db="+db, "init")
	s.start("ovs-vswitchd", "--enable-dummy=override", "--disable-system", "--unixctl="+dir+"/ctl", db)
	add := []string{"--timeout=20", "--db=" + db, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"}
	for i := 1; i <= 3; i++ {
		name := fmt.Sprint("p", i)
		add = append(add, "--", "add-port", "br0", name, "--", "set", "interface", name, "type=dummy", fmt.Sprint("ofport_request=", i))
	}
	s.run("ovs-vsctl", add...)
	s.await("br0.mgmt")
	return s
}

func (s *dummySwitch) start(name string, args ...string) {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	nodetest.Must(s.t, cmd.Start())
	s.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
}

func (s *dummySwitch) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func (s *dummySwitch) await(name string) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			return
		}
	}
	s.t.Fatalf("no %s after 20s", name)
}

func (s *dummySwitch) replace(table []string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "flows")
	nodetest.Must(s.t, os.WriteFile(file, []byte(strings.Join(table, "\n")+"\n"), 0o600))
	s.run("ovs-ofctl", "-O", "OpenFlow14", "replace-flows", filepath.Join(s.dir, "br0.mgmt"), file)
}

// passes says whether the switch does anything with a packet.
func (s *dummySwitch) passes(packet string) bool {
	s.t.Helper()
	return !strings.HasPrefix(s.actions(packet), "drop")
}

// actions are the last datapath actions of a packet. Options are those of ofproto/trace.
func (s *dummySwitch) actions(packet string, options ...string) string {
	s.t.Helper()
	args := append([]string{"--timeout=20", "--target=" + s.dir + "/ctl", "ofproto/trace", "br0", packet}, options...)
	out := s.run("ovs-appctl", args...)
	const before = "Datapath actions: " // the last are behind conntrack
	i := strings.LastIndex(out, before)
	if i < 0 {
		s.t.Fatalf("trace of %s: %s", packet, out)
	}
	actions, _, _ := strings.Cut(out[i+len(before):], "\n")
	return actions
}

// TestTable_DropsForgedPackets: what the host of a DPU must not send, and what
// must not come from the physical network, is dropped; without the rules for it, and
// where it says nothing forged, it passes.
func TestTable_DropsForgedPackets(t *testing.T) {
	s := newDummySwitch(t)
	w := Bridge{
		MAC: "02:42:ac:12:00:02", Uplink: 1, Routers: []Router{{Port: 2, Mark: MarkDefault}},
		Addresses: []netip.Prefix{netip.MustParsePrefix("172.18.0.2/16"), netip.MustParsePrefix("fc00:18::2/64")},
	}
	guarded := w
	guarded.Guests, guarded.Own = []int{3}, []netip.Addr{netip.MustParseAddr("172.18.0.2"), netip.MustParseAddr("fc00:18::2"), netip.MustParseAddr("172.18.0.200")}
	guarded.Masquerade = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/17"), netip.MustParsePrefix("fd69::/112")}
	guarded.ClusterSubnets = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")}
	const (
		host   = "in_port=3,dl_src=02:00:00:00:00:09,dl_dst=02:42:ac:12:00:02,"
		remote = "in_port=1,dl_src=02:00:00:00:00:07,dl_dst=02:42:ac:12:00:02,"
	)
	forged := map[string]string{
		"Geneve from the host":             host + "udp,nw_src=172.18.0.9,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=6081",
		"Geneve from the host, IPv6":       host + "udp6,ipv6_src=fc00:18::9,ipv6_dst=fc00:18::2,nw_ttl=64,udp_dst=6081",
		"Geneve from the host to another":  "in_port=3,dl_src=02:00:00:00:00:09,dl_dst=02:00:00:00:00:07,udp,nw_src=172.18.0.9,nw_dst=172.18.0.4,nw_ttl=64,udp_dst=6081",
		"Geneve in fragments":              host + "udp,nw_frag=first,nw_src=172.18.0.9,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=6081",
		"Geneve with a VLAN tag":           host + "dl_vlan=7,udp,nw_src=172.18.0.9,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=6081",
		"the DPU's MAC":                    "in_port=3,dl_src=02:42:ac:12:00:02,dl_dst=02:00:00:00:00:07,dl_type=0x88b5",
		"the DPU's address":                host + "tcp,nw_src=172.18.0.2,nw_dst=172.18.0.4,nw_ttl=64,tcp_dst=80",
		"the DPU's further address":        host + "tcp,nw_src=172.18.0.200,nw_dst=172.18.0.4,nw_ttl=64,tcp_dst=80",
		"the DPU's IPv6 address":           host + "tcp6,ipv6_src=fc00:18::2,ipv6_dst=fc00:18::4,nw_ttl=64,tcp_dst=80",
		"the DPU's address, by ARP":        "in_port=3,dl_src=02:00:00:00:00:09,dl_dst=ff:ff:ff:ff:ff:ff,arp,arp_op=2,arp_spa=172.18.0.2,arp_tpa=172.18.0.4",
		"the DPU's address, advertised":    "in_port=3,dl_src=02:00:00:00:00:09,dl_dst=33:33:00:00:00:01,icmp6,ipv6_src=fe80::9,ipv6_dst=ff02::1,nw_ttl=255,icmpv6_type=136,icmpv6_code=0,nd_target=fc00:18::2",
		"a pod from the host":              host + "tcp,nw_src=172.18.0.9,nw_dst=10.244.1.5,nw_ttl=64,tcp_dst=80",
		"a pod from the host, IPv6":        host + "tcp6,ipv6_src=fc00:18::9,ipv6_dst=fd00:10:244:1::5,nw_ttl=64,tcp_dst=80",
		"a masquerade source of the host":  host + "udp,nw_src=169.254.0.5,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=53",
		"a masquerade source":              remote + "udp,nw_src=169.254.0.5,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=53",
		"a masquerade source, IPv6":        remote + "udp6,ipv6_src=fd69::5,ipv6_dst=fc00:18::2,nw_ttl=64,udp_dst=53",
		"a masquerade source in a tunnel":  remote + "udp,nw_src=169.254.0.5,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=6081",
		"a masquerade destination":         remote + "tcp,nw_src=172.18.0.9,nw_dst=169.254.0.2,nw_ttl=64,tcp_dst=22",
		"a masquerade destination, IPv6":   remote + "tcp6,ipv6_src=fc00:18::9,ipv6_dst=fd69::2,nw_ttl=64,tcp_dst=22",
		"a masquerade source, advertising": remote + "icmp6,ipv6_src=fd69::5,ipv6_dst=fc00:18::2,nw_ttl=255,icmpv6_type=136,icmpv6_code=0,nd_target=fd69::5",
	}
	honest := map[string]string{
		"the host to the DPU":            host + "tcp,nw_src=172.18.0.9,nw_dst=172.18.0.2,nw_ttl=64,tcp_dst=22",
		"the host to others, by UDP":     host + "udp,nw_src=172.18.0.9,nw_dst=172.18.0.4,nw_ttl=64,udp_dst=53",
		"the host's ARP":                 "in_port=3,dl_src=02:00:00:00:00:09,dl_dst=ff:ff:ff:ff:ff:ff,arp,arp_op=1,arp_spa=172.18.0.9,arp_tpa=172.18.0.2",
		"the host asks for the DPU":      "in_port=3,dl_src=02:00:00:00:00:09,dl_dst=33:33:ff:00:00:02,icmp6,ipv6_src=fe80::9,ipv6_dst=ff02::1:ff00:2,nw_ttl=255,icmpv6_type=135,icmpv6_code=0,nd_target=fc00:18::2",
		"tunnels of other nodes":         remote + "udp,nw_src=172.18.0.4,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=6081",
		"a link-local address of others": remote + "udp,nw_src=169.254.169.254,nw_dst=172.18.0.2,nw_ttl=64,udp_dst=53",
	}
	s.replace(Table(w))
	for name, packet := range forged {
		if !s.passes(packet) {
			t.Errorf("without the rules, %s is dropped: this shows nothing", name)
		}
	}
	early := guarded
	early.Routers = nil
	for what, table := range map[string][]string{"the table": Table(guarded), "the table without the router": Table(early)} {
		s.replace(table)
		for name, packet := range forged {
			if s.passes(packet) {
				t.Errorf("by %s, %s passes", what, name)
			}
		}
		for name, packet := range honest {
			if !s.passes(packet) {
				t.Errorf("by %s, %s is dropped", what, name)
			}
		}
	}
}

// TestTable_TwoRoutersHaveTheirOwnPackets: each of two routers behind the bridge gets the
// answers to its connections and what the node's processes send to its masquerade addresses.
func TestTable_TwoRoutersHaveTheirOwnPackets(t *testing.T) {
	s := newDummySwitch(t)
	addresses := nodetest.Prefixes("172.18.0.2/16")
	masquerade := func(subnet string) []Masquerade {
		return Masquerades(nodetest.Prefixes(subnet), nodetest.Prefixes("10.96.0.0/16"), addresses)
	}
	blue := masquerade("169.254.128.0/24")
	blue[0].Services = nil // the service subnet leads to the default network
	s.replace(Table(Bridge{
		MAC: "02:42:ac:12:00:02", Uplink: 1, Addresses: addresses,
		Routers: []Router{{Port: 2, Mark: MarkDefault, Masquerade: masquerade("169.254.0.0/24")}, {Port: 3, Mark: 2, Masquerade: blue}},
	}))
	const (
		host   = "in_port=LOCAL,dl_src=02:42:ac:12:00:02,dl_dst=02:00:00:00:00:07,tcp,nw_ttl=64,tcp_src=9,tcp_dst=80,"
		remote = "in_port=1,dl_src=02:00:00:00:00:07,dl_dst=02:42:ac:12:00:02,"
		router = "dl_src=02:42:ac:12:00:02,dl_dst=02:00:00:00:00:07,tcp,nw_ttl=64,tcp_src=9,tcp_dst=80,nw_src=172.18.0.2,"
	)
	for _, c := range []struct{ what, packet, want string }{
		{"the default router's connection", "in_port=2," + router + "nw_dst=172.18.0.9", "ct(commit,zone=64000,mark=0x1/0xffffffff),1"},
		{"the other router's connection", "in_port=3," + router + "nw_dst=172.18.0.9", "ct(commit,zone=64000,mark=0x2/0xffffffff),1"},
		{"an answer to the default router", remote + "ct_mark=1,tcp,nw_ttl=64,nw_src=172.18.0.9,nw_dst=172.18.0.2", "2"},
		{"an answer to the other router", remote + "ct_mark=2,tcp,nw_ttl=64,nw_src=172.18.0.9,nw_dst=172.18.0.2", "3"},
		{"an answer to the host", remote + "tcp,nw_ttl=64,nw_src=172.18.0.9,nw_dst=172.18.0.2", "100"},
		{"ARP of another host", remote + "arp,arp_op=2,arp_spa=172.18.0.9,arp_tpa=172.18.0.2", "2,3,100"},
		{"the host to a service", host + "nw_src=169.254.0.2,nw_dst=10.96.0.1", "set(eth(src=0a:58:a9:fe:00:04,dst=02:42:ac:12:00:02)),2"},
		{"the host to the other router", host + "nw_src=169.254.128.2,nw_dst=172.18.0.2", "set(eth(src=0a:58:a9:fe:80:04,dst=02:42:ac:12:00:02)),3"},
		{"the default router to the host", "in_port=2," + strings.Replace(router, "172.18.0.2,", "10.244.1.5,", 1) + "nw_dst=169.254.0.2", "set(eth(src=02:00:00:00:00:07,dst=02:42:ac:12:00:02)),100"},
		{"the other router to the host", "in_port=3," + strings.Replace(router, "172.18.0.2,", "10.244.1.5,", 1) + "nw_dst=169.254.128.2", "set(eth(src=02:00:00:00:00:07,dst=02:42:ac:12:00:02)),100"},
	} {
		var options []string
		if strings.Contains(c.packet, "ct_mark") {
			options = []string{"--ct-next", "trk,est,rpl"}
		}
		if got := s.actions(c.packet, options...); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
