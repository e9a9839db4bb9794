package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/cnifiles"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
)

// Config says what is looked at.
type Config struct {
	Gateway gateway.Config
	// Root is where the host's root is mounted: "/" on the host itself.
	Root string
	// Proc is where this process has /proc, whose net/ is that of the node's network namespace.
	Proc string
	// ConfDir is the directory of CNI configurations, as this process sees it.
	ConfDir string
	HostOVS bool
}

// Host is what Observe asks beside files.
type Host struct {
	NS *netdev.NS
	// NIC looks at the device of a link.
	NIC func(link string) NIC
}

// Observe reads a node. An error means that there is not even a list of links; lesser parts become Unreadable.
func Observe(cfg Config, host Host) (Facts, error) {
	st, outlook, err := gateway.Foresee(cfg.Gateway, node.Local{NS: host.NS})
	if err != nil {
		return Facts{}, err
	}
	o := observer{root: cfg.Root, facts: Facts{Node: cfg.Gateway.Node, Datapath: cfg.Gateway.Datapath, HostOVS: cfg.HostOVS, Gateway: outlook}}
	o.facts.Kernel = o.kernel(host.NS)
	if outlook.NIC != "" {
		o.facts.NIC = host.NIC(outlook.NIC)
		o.facts.Network = o.network(host.NS, st.Links[outlook.NIC])
	}
	o.facts.Others.KeepsPorts = cfg.HostOVS && !o.removesTransientPorts()
	o.facts.Others.Links = reserved(st, outlook)
	o.facts.Others.Masquerade = cfg.Gateway.Conflicts(st.State)
	o.facts.Others.CNIFiles, err = cnifiles.Others(cfg.ConfDir)
	o.note(err)
	o.processes(cfg.Proc)
	o.facts.Others.KubeProxy = o.kubeProxy(host.NS, st)
	o.facts.AllRPFilter, err = netdev.SysctlValue(host.NS, node.SysctlKey(node.RPFilter, "all"))
	o.note(err)
	o.facts.Kernel.CPUs, o.facts.Kernel.Connections = runtime.NumCPU(), o.connections(cfg.Proc)
	return o.facts, nil
}

type observer struct {
	root  string
	facts Facts
}

func (o *observer) note(err error) {
	if err != nil {
		o.facts.Unreadable = append(o.facts.Unreadable, err.Error())
	}
}

// read gives a file of the host; "" where it is absent.
func (o *observer) read(path string) string {
	text, err := os.ReadFile(filepath.Join(o.root, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.note(err)
	}
	return string(text)
}

func (o *observer) exists(path string) bool {
	_, err := os.Stat(filepath.Join(o.root, path))
	return err == nil
}

func (o *observer) kernel(ns *netdev.NS) Kernel {
	k := Kernel{Modules: map[string]Module{}}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		o.note(fmt.Errorf("reading the kernel's version: %w", err))
	}
	k.Release = unix.ByteSliceToString(name.Release[:])
	dir := "/lib/modules/" + k.Release
	listed := o.read(dir+"/modules.dep") + o.read(dir+"/modules.builtin")
	for _, name := range append(datapathModules(), tcModules()...) {
		switch {
		case strings.Contains(listed, "/"+name+".ko"), o.exists("/sys/module/" + name):
			k.Modules[name] = Available
		case listed != "":
			k.Modules[name] = Absent
		}
	}
	if config := o.configOf(k.Release); config != "" {
		k.Modules[skbExt] = Absent
		if strings.Contains(config, "\n"+skbExt+"=y\n") {
			k.Modules[skbExt] = Available
		}
	}
	iommus, err := filepath.Glob(filepath.Join(o.root, "/sys/class/iommu/*"))
	o.note(err)
	k.IOMMU = len(iommus) > 0
	if netdev.HasGenericFamily(ns, "ovs_datapath") {
		k.Modules["openvswitch"] = Available
	}
	return k
}

// configOf is the configuration that a kernel was built with, where the distribution has it; "": it is not known.
func (o *observer) configOf(release string) string {
	return cmp.Or(o.read("/boot/config-"+release), o.read("/lib/modules/"+release+"/config"), o.read("/usr/lib/modules/"+release+"/config"))
}

// reserved are devices of other kinds than Open vSwitch makes, with names that the network needs.
func reserved(st gateway.State, g gateway.Outlook) (links []string) {
	if g.TakenOver {
		return nil
	}
	names := []string{contract.IntegrationBridge, node.ManagementInterface}
	if g.NIC != "" {
		names = append(names, g.Bridge)
	}
	for _, name := range names {
		link, ok := st.Links[name]
		// With the userspace datapath the devices are taps. The management port may be a VF.
		if ok && !slices.Contains([]string{"openvswitch", "tun", "tuntap", "device"}, link.Type) {
			links = append(links, fmt.Sprintf("%s (%s)", name, link.Type))
		}
	}
	return links
}
