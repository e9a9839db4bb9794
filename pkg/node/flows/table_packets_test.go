package flows

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// packetSwitch is a dummySwitch that gets packets, each with the connection tracking that those before it have left.
type packetSwitch struct {
	*dummySwitch
	bridge Bridge
}

// newPacketSwitch has a node 172.18.0.2 behind the uplink 1 with the router 2.
func newPacketSwitch(t *testing.T) *packetSwitch {
	return &packetSwitch{newDummySwitch(t), Bridge{
		MAC: "02:42:ac:12:00:02", Uplink: 1, Routers: []Router{{Port: 2, Mark: MarkDefault}},
		Addresses: nodetest.Prefixes("172.18.0.2/16"),
	}}
}

// serve makes the services those of the node, and waits for the datapath.
func (s *packetSwitch) serve(services Services) {
	s.t.Helper()
	s.bridge.Services = services.sorted()
	s.replace(Table(s.bridge))
	s.run("ovs-appctl", "--timeout=20", "--target="+s.dir+"/ctl", "revalidator/purge")
}

// countOfPort is a port of ovs-ofctl dump-ports, with the packets received and sent.
var countOfPort = regexp.MustCompile(`port +"?([A-Za-z0-9]+)"?: rx pkts=(\d+)[^\n]*\n +tx pkts=(\d+)`)

// counts gives the packets received and sent of each port.
func (s *packetSwitch) counts() (received, sent map[string]string) {
	s.t.Helper()
	received, sent = map[string]string{}, map[string]string{}
	for _, m := range countOfPort.FindAllStringSubmatch(s.run("ovs-ofctl", "--no-names", "dump-ports", s.dir+"/br0.mgmt"), -1) {
		received[m[1]], sent[m[1]] = m[2], m[3]
	}
	return received, sent
}

// send gives a packet to a port, as "udp 192.0.2.1:9 172.18.0.2:53" or "tcp FROM TO FLAGS" or "icmp FROM TO", and says
// to which of host, router and uplink it went. The dummy datapath has handled a packet when it has counted it.
func (s *packetSwitch) send(port, packet string) string {
	s.t.Helper()
	names := map[string]string{"host": "br0", "uplink": "p1", "router": "p2"}
	numbers := map[string]string{"host": "LOCAL", "uplink": "1", "router": "2"}
	before, was := s.counts()
	s.run("ovs-appctl", "--timeout=20", "--target="+s.dir+"/ctl", "netdev-dummy/receive", names[port], s.keyOf(port, packet))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		now, is := s.counts()
		if now[numbers[port]] == before[numbers[port]] {
			continue
		}
		var to []string
		for _, name := range []string{"host", "router", "uplink"} {
			if name != port && was[numbers[name]] != is[numbers[name]] {
				to = append(to, name)
			}
		}
		return strings.Join(to, " ")
	}
	s.t.Fatalf("port %s has not received %s", port, packet)
	return ""
}

// keyOf is a packet in the datapath's notation.
func (s *packetSwitch) keyOf(port, packet string) string {
	s.t.Helper()
	words := strings.Fields(packet)
	macs := "src=" + s.bridge.MAC + ",dst=02:00:00:00:00:07"
	if port == "uplink" {
		macs = "src=02:00:00:00:00:07,dst=" + s.bridge.MAC
	}
	key := func(src, dst string, number int) string {
		return fmt.Sprintf("in_port(1),eth(%s),eth_type(0x0800),ipv4(src=%s,dst=%s,proto=%d,tos=0,ttl=64,frag=no)", macs, src, dst, number)
	}
	if words[0] == "icmp" {
		return key(words[1], words[2], 1) + ",icmp(type=8,code=0)"
	}
	from, to := netip.MustParseAddrPort(words[1]), netip.MustParseAddrPort(words[2])
	ports := fmt.Sprintf("(src=%d,dst=%d)", from.Port(), to.Port())
	if words[0] == "udp" {
		return key(from.Addr().String(), to.Addr().String(), 17) + ",udp" + ports
	}
	return key(from.Addr().String(), to.Addr().String(), 6) + ",tcp" + ports + ",tcp_flags(" + words[3] + ")"
}

// steps send packets one after the other. Each is "PORT PACKET -> RECEIVERS"; "" is dropped.
func (s *packetSwitch) steps(what string, steps ...string) {
	s.t.Helper()
	for i, step := range steps {
		packet, want, _ := strings.Cut(step, " ->")
		port, packet, _ := strings.Cut(packet, " ")
		got := s.send(port, packet)
		if want = strings.TrimSpace(want); got != want && want != "any" {
			s.t.Errorf("%s, packet %d: %s went to %q, want %q", what, i+1, step, got, want)
		}
	}
}

func nodePorts(ports ...string) (s Services) {
	for _, text := range ports {
		protocol, number, _ := strings.Cut(text, " ")
		var port uint16
		_, _ = fmt.Sscan(number, &port)
		s.NodePorts = append(s.NodePorts, NodePort{Port: Port{Protocol(protocol), port}})
	}
	return s
}

func external(endpoints ...string) (s Services) {
	for _, text := range endpoints {
		protocol, at, _ := strings.Cut(text, " ")
		to := netip.MustParseAddrPort(at)
		s.External = append(s.External, Endpoint{Addr: to.Addr(), Port: Port{Protocol(protocol), to.Port()}})
	}
	return s
}

// TestPackets_ServiceThatIsGoneGetsNoMore: a client of UDP that never pauses, and one of TCP, are the host's as soon as
// their node port, host port or external port is gone, and the service's while it is there.
func TestPackets_ServiceThatIsGoneGetsNoMore(t *testing.T) {
	s := newPacketSwitch(t)
	for _, c := range []struct {
		name, to string
		with     Services
	}{
		{"a node port", "172.18.0.2:8125", nodePorts("udp 8125", "tcp 8125", "udp 9999")},
		{"a port of the node's address", "172.18.0.2:8125", external("udp 172.18.0.2:8125", "tcp 172.18.0.2:8125")},
		{"an external address", "203.0.113.7:8125", external("udp 203.0.113.7:8125", "tcp 203.0.113.7:8125")},
	} {
		s.serve(c.with)
		udp, tcp := "uplink udp 192.0.2.1:41001 "+c.to, "uplink tcp 192.0.2.1:41001 "+c.to
		back := []string{"router udp " + c.to + " 192.0.2.1:41001 -> uplink", "router tcp " + c.to + " 192.0.2.1:41001 syn|ack -> uplink"}
		s.steps(c.name, udp+" -> router", back[0], udp+" -> router", tcp+" syn -> router", back[1], tcp+" ack -> router")
		s.serve(nodePorts("udp 9999"))
		s.steps(c.name+" is gone", udp+" -> host", tcp+" ack -> host", "host udp "+c.to+" 192.0.2.1:41001 -> any", udp+" -> host")
		s.serve(c.with)
		s.steps(c.name+" is back", udp+" -> router", back[0], udp+" -> router")
	}
}

// TestPackets_ReplyToServicePortIsTheHosts: a process of the node that sends from a port that is a node port, or a port
// of a service at the node's address, is answered; so is a pod. Clients of the service are the service's meanwhile.
func TestPackets_ReplyToServicePortIsTheHosts(t *testing.T) {
	s := newPacketSwitch(t)
	for name, services := range map[string]Services{
		"a node port":                  nodePorts("tcp 30123", "udp 30123"),
		"a port of the node's address": external("tcp 172.18.0.2:30123", "udp 172.18.0.2:30123"),
	} {
		port := map[string]int{"a node port": 5000, "a port of the node's address": 5001}[name]
		own, server, pod := "172.18.0.2:30123", fmt.Sprint("192.0.2.1:", port), fmt.Sprint("192.0.2.3:", port)
		s.serve(services)
		s.steps(name,
			"host tcp "+own+" "+server+" syn -> any", "uplink tcp "+server+" "+own+" syn|ack -> host",
			"host tcp "+own+" "+server+" ack -> any", "uplink tcp "+server+" "+own+" psh|ack -> host",
			"uplink tcp "+server+" "+own+" rst -> host",
			"host udp "+own+" "+server+" -> any", "uplink udp "+server+" "+own+" -> host",
			"router tcp "+own+" "+pod+" syn -> uplink", "uplink tcp "+pod+" "+own+" syn|ack -> router",
			"router udp "+own+" "+pod+" -> uplink", "uplink udp "+pod+" "+own+" -> router",
			"uplink tcp 192.0.2.9:7 "+own+" syn -> router", "router tcp "+own+" 192.0.2.9:7 syn|ack -> uplink",
			"uplink tcp 192.0.2.9:7 "+own+" ack -> router",
			"uplink udp 192.0.2.9:7 "+own+" -> router", "router udp "+own+" 192.0.2.9:7 -> uplink",
			"uplink udp 192.0.2.9:7 "+own+" -> router",
		)
		s.serve(Services{})
		early := "192.0.2.5" + strings.TrimPrefix(server, "192.0.2.1")
		s.steps(name+" is not there yet", "host udp "+own+" "+early+" -> any", "uplink udp "+early+" "+own+" -> host")
		s.serve(services)
		s.steps(name+" comes", "uplink udp "+early+" "+own+" -> router", "router udp "+own+" "+early+" -> uplink",
			"host udp "+own+" "+early+" -> any", "uplink udp "+early+" "+own+" -> host")
	}
}

// TestPackets_NothingTakesEndAtTheBridge: at an external address of a service, other ports and echo requests are dropped
// and the service answers. An address that the host has too stays with the host, but for the service.
func TestPackets_NothingTakesEndAtTheBridge(t *testing.T) {
	s := newPacketSwitch(t)
	s.bridge.Own = []netip.Addr{netip.MustParseAddr("203.0.113.50")}
	services := external("tcp 203.0.113.7:80", "tcp 203.0.113.50:80", "tcp 203.0.113.8:80", "tcp 203.0.113.8:82")
	services.External[2].Remote = true // the endpoints of this one are on other nodes
	s.serve(services)
	s.steps("policy Local", "uplink tcp 192.0.2.1:9 203.0.113.8:80 syn ->", "uplink tcp 192.0.2.1:9 203.0.113.8:82 syn -> router")
	for addr, others := range map[string]string{"203.0.113.7": "", "203.0.113.50": "host"} {
		from := map[string]string{"203.0.113.7": "192.0.2.1", "203.0.113.50": "192.0.2.2"}[addr]
		s.steps(addr,
			"uplink tcp "+from+":9 "+addr+":80 syn -> router", "router tcp "+addr+":80 "+from+":9 syn|ack -> uplink",
			"uplink tcp "+from+":9 "+addr+":80 ack -> router",
			"uplink tcp "+from+":9 "+addr+":81 syn -> "+others, "uplink udp "+from+":9 "+addr+":80 -> "+others,
			"uplink icmp "+from+" "+addr+" -> "+others,
		)
	}
	s.steps("the node and other addresses", "uplink icmp 192.0.2.1 172.18.0.2 -> host", "uplink tcp 192.0.2.1:9 172.18.0.2:81 syn -> host",
		"uplink icmp 192.0.2.1 203.0.113.9 -> host")
}

// TestTable_ICMPErrorsReachTheRouter: an error about a connection of a router's, or of a client to a service, is the
// router's, and that about another one the host's.
func TestTable_ICMPErrorsReachTheRouter(t *testing.T) {
	s := newPacketSwitch(t)
	s.serve(external("tcp 203.0.113.7:80"))
	const (
		toVIP  = "in_port=1,dl_src=02:00:00:00:00:07,dl_dst=02:42:ac:12:00:02,icmp,nw_ttl=64,icmp_type=3,icmp_code=4,nw_src=192.0.2.1,nw_dst=203.0.113.7"
		toNode = "in_port=1,dl_src=02:00:00:00:00:07,dl_dst=02:42:ac:12:00:02,icmp,nw_ttl=64,icmp_type=3,icmp_code=4,nw_src=192.0.2.1,nw_dst=172.18.0.2"
	)
	for _, c := range []struct{ what, packet, state, want string }{
		{"a client's, to the service", toVIP + ",ct_mark=1", "trk,rel", "2"},
		{"a router's, to a pod", toNode + ",ct_mark=1", "trk,rel,rpl", "2"},
		{"the host's", toNode, "trk,rel", "100"},
		{"unknown, to the service", toVIP, "trk,inv", "drop"},
	} {
		if got := s.actions(c.packet, "--ct-next", c.state); got != c.want {
			t.Errorf("an error about a connection: %s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestTable_RequestsAtTheNodeAreNotLookedUp: a client's first packet to a node port has one pass, of many until a pod has it:
// the userspace datapath drops what has more than eight. A reply is looked up.
func TestTable_RequestsAtTheNodeAreNotLookedUp(t *testing.T) {
	s := newPacketSwitch(t)
	s.serve(nodePorts("tcp 30123", "udp 30123"))
	const in, from = "in_port=1,dl_src=02:00:00:00:00:07,dl_dst=02:42:ac:12:00:02,", "nw_ttl=64,nw_src=192.0.2.1,nw_dst=172.18.0.2,"
	for packet, isLookedUp := range map[string]bool{
		"tcp,tcp_src=40000,tcp_dst=30123,tcp_flags=syn":     false,
		"tcp,tcp_src=40000,tcp_dst=30123,tcp_flags=syn|ack": true,
		"tcp,tcp_src=40000,tcp_dst=30123,tcp_flags=ack":     true,
		"udp,udp_src=40000,udp_dst=30123":                   false,
		"udp,udp_src=53,udp_dst=30123":                      true,
		"udp,udp_src=40000,udp_dst=9":                       true, // the host's
	} {
		if got := s.run("ovs-appctl", "--timeout=20", "--target="+s.dir+"/ctl", "ofproto/trace", "br0", in+packet[:4]+from+packet[4:]); strings.Contains(got, "ct(zone=64000),recirc") != isLookedUp {
			t.Errorf("%s: looked up %v is wrong:\n%s", packet, !isLookedUp, got)
		}
	}
}
