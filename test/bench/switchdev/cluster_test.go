//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

const podMTU = "1400"

// cluster is two nodes and OVN's databases, which are in the first namespace.
type cluster struct {
	t     *testing.T
	dir   string
	nodes []*ovsNode
}

// ovsNode is a namespace with a NIC, OVS and ovn-controller.
type ovsNode struct {
	*testing.T
	name, pci, dir, uplink string
	addresses              []string // on the cable, IPv4 first
	ports                  []offload.Port
	settings               offload.Settings
}

// endpoint is a pod on a VF.
type endpoint struct {
	name, v4, v6 string
	node         *ovsNode
	vf           int
	rep          string
}

// addresses are in the order of families.
func (e *endpoint) addresses() []string { return []string{e.v4, e.v6} }

// newCluster joins the NICs by a cable.
func newCluster(t *testing.T, hwOffload bool) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir()}
	t.Cleanup(c.stop)
	c.central()
	run(t, "ip", "link", "add", "cable", "type", "bridge")
	run(t, "ip", "link", "set", "cable", "up")
	for i, pci := range nics(t)[:2] {
		run(t, "ip", "link", "set", fmt.Sprintf("swsimw%d", i), "master", "cable", "up")
		c.nodes = append(c.nodes, c.node(i, pci, hwOffload))
	}
	return c
}

func (c *cluster) central() {
	for _, db := range []string{"nb", "sb"} {
		path := filepath.Join(c.dir, db)
		run(c.t, "ovsdb-tool", "create", path+".db", "/usr/share/ovn/ovn-"+db+".ovsschema")
		c.daemon("", c.dir, "ovsdb-server", path+".db", "--remote=punix:"+path+".sock", "--pidfile="+path+".pid", "--log-file="+path+".log", "--unixctl="+path+".ctl")
	}
	c.daemon("", c.dir, "ovn-northd", "--ovnnb-db="+c.remote("nb"), "--ovnsb-db="+c.remote("sb"), "--pidfile="+c.dir+"/northd.pid",
		"--log-file="+c.dir+"/northd.log", "--unixctl="+c.dir+"/northd.ctl")
	c.nb("init")
}

func (c *cluster) remote(db string) string { return "unix:" + filepath.Join(c.dir, db+".sock") }

// daemon starts one of OVS's or OVN's, in a namespace when one is named.
func (c *cluster) daemon(ns, dir string, args ...string) {
	c.t.Helper()
	words := append([]string{"env", "OVS_RUNDIR=" + dir, "OVN_RUNDIR=" + dir}, args...)
	words = append(words, "--detach", "-vconsole:off")
	if ns != "" {
		words = inside(ns, words...)
	}
	run(c.t, words...)
}

func (c *cluster) nb(args ...string) string {
	c.t.Helper()
	return run(c.t, append([]string{"ovn-nbctl", "--db=" + c.remote("nb"), "--timeout=120"}, args...)...)
}

func (c *cluster) sync() { c.t.Helper(); c.nb("--wait=hv", "sync") }

// offloading are OVS' settings with hw-offload on or off.
func offloading(on bool) offload.Settings {
	return offload.Observed{OtherConfig: map[string]string{offload.HWOffloadKey: fmt.Sprint(on)}}.Settings()
}

func newNode(t *testing.T, name, dir, pci string, i int) *ovsNode {
	return &ovsNode{T: t, name: name, dir: dir, pci: pci, addresses: []string{fmt.Sprintf("192.168.50.%d", i+1), fmt.Sprintf("fd00:50::%d", i+1)}}
}

func (c *cluster) node(i int, pci string, hwOffload bool) *ovsNode {
	t := c.t
	t.Helper()
	name := fmt.Sprintf("node%d", i+1)
	n := newNode(t, name, filepath.Join(c.dir, name), pci, i)
	n.settings = offloading(hwOffload)
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, driver+pci+"/sriov_numvfs", "0")
	run(t, "ip", "netns", "add", n.name)
	run(t, "devlink", "dev", "reload", "pci/"+pci, "netns", n.name)
	run(t, inside(n.name, "devlink", "dev", "eswitch", "set", "pci/"+pci, "mode", "switchdev")...)
	write(t, driver+pci+"/sriov_numvfs", "4")
	n.uplink = n.link("p0")
	batch(t, n.name, "link set lo up", "link set "+n.uplink+" up", "addr add "+n.addresses[0]+"/24 dev "+n.uplink,
		"addr add "+n.addresses[1]+"/64 dev "+n.uplink+" nodad")
	run(t, inside(n.name, "ethtool", "-K", n.uplink, "hw-tc-offload", "on")...)

	run(t, "ovsdb-tool", "create", n.dir+"/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	c.daemon(n.name, n.dir, "ovsdb-server", n.dir+"/conf.db", "--remote=punix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/ovsdb.log")
	n.vsctl("--no-wait", "init")
	n.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id="+n.name, fmt.Sprintf("other_config:hw-offload=%t", hwOffload),
		"other_config:max-idle=60000", "external_ids:ovn-remote="+c.remote("sb"), "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip="+n.addresses[0], "external_ids:ovn-bridge=br-int")
	c.daemon(n.name, n.dir, "ovs-vswitchd", "unix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/vswitchd.log")
	c.daemon(n.name, n.dir, "ovn-controller", "unix:"+n.dir+"/db.sock", "--pidfile", "--log-file="+n.dir+"/controller.log")
	return n
}

// link finds a port of the NIC by the name that the switch gives it. It starts one process for all devices: each takes long
// in there.
func (n *ovsNode) link(port string) string {
	n.Helper()
	file := run(n.T, inside(n.name, "sh", "-c", "grep -lsx "+port+" /sys/class/net/*/phys_port_name; true")...)
	if file == "" {
		n.Fatalf("%s has no port %s", n.name, port)
	}
	return filepath.Base(filepath.Dir(file))
}

func (n *ovsNode) vsctl(args ...string) string {
	n.Helper()
	return run(n.T, append([]string{"ovs-vsctl", "-vconsole:off", "--timeout=60", "--db=unix:" + n.dir + "/db.sock"}, args...)...)
}

// plug puts the VF into a namespace and its representor, with further columns, into
// br-int. It gives the name of the VF's netdev there.
func (n *ovsNode) plug(e *endpoint, columns ...string) (link string) {
	n.Helper()
	e.rep = n.link(fmt.Sprintf("pf0vf%d", e.vf))
	link = run(n.T, inside(n.name, "ls", fmt.Sprintf("/sys/bus/pci/devices/%s/virtfn%d/net", n.pci, e.vf))...)
	run(n.T, "ip", "netns", "add", e.name)
	n.Cleanup(func() { _, _ = try("ip", "netns", "del", e.name) })
	run(n.T, "ip", "-n", n.name, "link", "set", link, "netns", e.name)
	run(n.T, inside(n.name, "ethtool", "-K", e.rep, "hw-tc-offload", "on")...)
	run(n.T, "ip", "-n", n.name, "link", "set", e.rep, "up")
	n.vsctl(append([]string{"add-port", "br-int", e.rep, "--", "set", "Interface", e.rep, "external_ids:iface-id=default_" + e.name}, columns...)...)
	n.ports = append(n.ports, offload.Port{Name: e.rep, Device: offload.Device{Representor: true, HWTC: true, Function: true}})
	return link
}

// pod plugs one in that has its addresses from the test.
func (c *cluster) pod(e *endpoint, i int) {
	c.t.Helper()
	mac := fmt.Sprintf("0a:00:00:00:00:%02x", i+1)
	link := e.node.plug(e)
	batch(c.t, e.name,
		"link set lo up",
		"link set "+link+" name eth0 address "+mac+" mtu "+podMTU+" up",
		"addr add "+e.v4+"/24 dev eth0",
		"addr add "+e.v6+"/64 dev eth0 nodad",
		"route add default via "+e.v4[:strings.LastIndex(e.v4, ".")]+".1",
		"route add default via "+e.v6[:strings.LastIndex(e.v6, ":")]+":1")
	sw := "s" + strings.Split(e.v4, ".")[1]
	c.nb("lsp-add", sw, "default_"+e.name, "--", "lsp-set-addresses", "default_"+e.name, mac+" "+e.v4+" "+e.v6,
		"--", "lsp-set-port-security", "default_"+e.name, mac+" "+e.v4+" "+e.v6)
}

// sample is what pkg/offload says of the node now.
func (n *ovsNode) sample() offload.Sample {
	n.Helper()
	now := offload.State{Ports: n.ports, Settings: n.settings}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var sample offload.Sample
	s := offload.Sampler{Switch: n.vswitchd(), State: func() offload.State { return now }, Interval: time.Hour}
	s.Run(ctx, func(took offload.Sample, _ *offload.Delta) { sample = took; cancel() }, func(err error) { n.Error(err); cancel() })
	if sample.Report.Malformed > 0 {
		n.Errorf("%s: %d lines of the dump were not understood", n.name, sample.Report.Malformed)
	}
	return sample
}

func (n *ovsNode) vswitchd() unixctl.Client {
	return unixctl.Client{Dir: n.dir, Daemon: "ovs-vswitchd"}
}

// flows dumps the datapath's flows of a type as ovs-appctl knows it.
func (n *ovsNode) flows(kind string) []string {
	n.Helper()
	text, err := n.vswitchd().Call(context.Background(), "dpctl/dump-flows", "type="+kind) // also after the test
	if err != nil {
		n.Error(err)
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// stop ends the daemons and gives the NICs back.
func (c *cluster) stop() {
	start := time.Now()
	defer func() { c.t.Logf("taken down in %s", time.Since(start).Round(time.Second)) }()
	for _, n := range c.nodes {
		if c.t.Failed() {
			for _, kind := range []string{"offloaded", "tc", "ovs"} {
				c.t.Logf("%s %s:\n%s", n.name, kind, strings.Join(n.flows(kind), "\n"))
			}
			log, _ := try("grep", "-E", "WARN|ERR", n.dir+"/vswitchd.log")
			c.t.Logf("%s: %s", n.name, log)
		}
		// By the book, so that the kernel's datapath goes too.
		_, _ = n.vswitchd().Call(context.Background(), "exit", "--cleanup")
	}
	pids, _ := filepath.Glob(c.dir + "/*/*.pid")
	central, _ := filepath.Glob(c.dir + "/*.pid")
	for _, file := range append(pids, central...) {
		_, _ = try("pkill", "-F", file)
	}
	for _, n := range c.nodes {
		write(c.t, driver+n.pci+"/sriov_numvfs", "0")
		run(c.t, inside(n.name, "devlink", "dev", "reload", "pci/"+n.pci, "netns", "1")...)
		run(c.t, "ip", "netns", "del", n.name)
		nicSet(c.t, n.pci, "switchdev", "4")
	}
	_, _ = try("ip", "link", "del", "cable")
}
