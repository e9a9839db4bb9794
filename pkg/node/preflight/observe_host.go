package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
)

// network reads what the services have written about the uplink, by its index.
func (o *observer) network(ns *netdev.NS, link netdev.Link) (n Network) {
	var err error
	n.Leases, err = netdev.Lifetimes(ns, link.Name)
	o.note(err)
	maps.DeleteFunc(n.Leases, func(p netip.Prefix, _ time.Duration) bool { return !p.Addr().IsGlobalUnicast() })
	networkd := o.read(fmt.Sprintf("/run/systemd/netif/links/%d", link.Index))
	switch {
	case hasLine(o.read(fmt.Sprintf("/run/NetworkManager/devices/%d", link.Index)), "managed=true"):
		n.Service = "NetworkManager"
	case networkd != "" && !hasLine(networkd, "ADMIN_STATE=unmanaged"):
		n.Service = "systemd-networkd"
	}
	n.Netplan = n.Service != "" && (strings.Contains(networkd, "netplan") || o.exists("/etc/netplan"))
	return n
}

func hasLine(text, line string) bool {
	return slices.Contains(strings.Split(text, "\n"), line)
}

// kubeProxy finds chains of its iptables and nftables modes, the device of its IPVS mode and the port of its health.
func (o *observer) kubeProxy(ns *netdev.NS, st gateway.State) (traces []string) {
	chains, err := netdev.Chains(ns)
	o.note(err)
	if slices.ContainsFunc(chains, func(c netdev.Chain) bool { return c.Name == "KUBE-SERVICES" || c.Name == "KUBE-SVC" }) {
		traces = append(traces, "chain KUBE-SERVICES of iptables")
	}
	if slices.ContainsFunc(chains, func(c netdev.Chain) bool { return c.Table == "kube-proxy" }) {
		traces = append(traces, "table kube-proxy of nftables")
	}
	if _, ok := st.Links["kube-ipvs0"]; ok {
		traces = append(traces, "device kube-ipvs0")
	}
	if slices.ContainsFunc(o.facts.Listeners, func(l Listener) bool {
		return l.Port == kubeProxyPort && l.Protocol == "tcp" && l.Process != agentProcess
	}) {
		traces = append(traces, "port 10256")
	}
	return traces
}

const kubeProxyPort = 10256 // of its health, and of the agent in its place

// connections is the size of the kernel's table of connections. The sysctl is that of the process' own namespace.
func (o *observer) connections(proc string) int {
	text, err := os.ReadFile(filepath.Join(proc, "sys/net/netfilter/nf_conntrack_max"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		o.note(err)
		return 0
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	o.note(err)
	return limit
}

// processes finds listeners with their processes, and daemons of other networks.
func (o *observer) processes(proc string) {
	own, err := procfs.NewFS(proc)
	if err != nil {
		o.note(err)
		return
	}
	sockets := o.sockets(own)
	host, err := procfs.NewFS(filepath.Join(o.root, "proc"))
	if err != nil {
		o.note(err)
		return
	}
	all, err := host.AllProcs()
	o.note(err)
	owners := map[uint64]string{}
	for _, p := range all {
		name, err := p.Comm()
		if err != nil {
			continue // gone since
		}
		o.daemon(p, name)
		if len(sockets) == 0 {
			continue
		}
		targets, err := p.FileDescriptorTargets()
		if err != nil {
			continue // of another user, or gone
		}
		for _, target := range targets {
			if number, ok := strings.CutPrefix(target, "socket:["); ok {
				if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
					owners[inode] = name
				}
			}
		}
	}
	for inode, l := range sockets {
		l.Process = owners[inode]
		if inode == 0 {
			l.Process = kernelProcess
		}
		o.facts.Listeners = append(o.facts.Listeners, l)
	}
}

// daemon notes OVS and OVN of others. Those of our image have arguments that no distribution uses.
func (o *observer) daemon(p procfs.Proc, name string) {
	if name != "ovs-vswitchd" && name != "ovn-controller" {
		return
	}
	args, err := p.CmdLine()
	if err != nil || len(args) == 0 {
		return
	}
	switch {
	case name == "ovs-vswitchd" && !slices.Contains(args, "--overwrite-pidfile"):
		o.facts.Others.OVS = true
	case name == "ovn-controller" && !slices.Contains(args, "--unixctl=/run/ovn/ovn-controller.ctl"):
		o.facts.Others.OVN = true
	}
}

// removesTransientPorts looks for what distributions have for that: the unit of RHEL and its relatives, and options of the
// start script.
func (o *observer) removesTransientPorts() bool {
	unit := slices.ContainsFunc([]string{"/usr/lib", "/lib", "/etc"}, func(dir string) bool {
		return o.exists(dir + "/systemd/system/ovs-delete-transient-ports.service")
	})
	options := o.read("/etc/default/openvswitch-switch") + o.read("/etc/sysconfig/openvswitch")
	return unit || strings.Contains(options, "--delete-transient-ports")
}

// sockets are those at our ports, by inode; that of the kernel's is 0.
func (o *observer) sockets(own procfs.FS) map[uint64]Listener {
	const listening = 10 // TCP_LISTEN
	found := map[uint64]Listener{}
	add := func(protocol string, port, inode uint64) {
		if port == kubeProxyPort || slices.ContainsFunc(portsInUse(), func(p neededPort) bool { return uint64(p.number) == port && p.protocol == protocol }) {
			found[inode] = Listener{Protocol: protocol, Port: int(port)}
		}
	}
	for _, read := range []func() (procfs.NetTCP, error){own.NetTCP, own.NetTCP6} { //nolint:staticcheck // once, beside the processes of the same file system
		lines, err := read()
		if err != nil {
			continue // without IPv6 there is no such file
		}
		for _, l := range lines {
			if l.St == listening {
				add("tcp", l.LocalPort, l.Inode)
			}
		}
	}
	for _, read := range []func() (procfs.NetUDP, error){own.NetUDP, own.NetUDP6} {
		lines, err := read()
		if err != nil {
			continue
		}
		for _, l := range lines {
			add("udp", l.LocalPort, l.Inode)
		}
	}
	return found
}
