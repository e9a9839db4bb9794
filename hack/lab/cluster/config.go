package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Networks that a lab can have.
const (
	CNIOffload = "ovn-offload"
	CNIBridge  = "bridge"
)

// Outside is the host on the fabric that is no node; fabric holds the bridge between all. balancer is the address in
// front of several API servers: fabric has it.
const (
	Outside  = "outside"
	fabric   = "fabric"
	balancer = "load-balancer"
)

const apiPort = 6443

// InitSystemd is Config.VMInit for nodes that boot with systemd from a disk of their own, and pull their images.
const InitSystemd = "systemd"

// Config describes a lab. Of the prefixes those of Families are used.
type Config struct {
	Name          string // several labs may run at once, by name
	Workdir       string // state on disk: some GB; kubeconfig and logs are here
	ControlPlanes int    // 1 or 3: the first of the nodes, each with etcd and an API server
	Nodes         int    // of the control plane and workers
	VMNodes       int    // further nodes, which are VMs with a simulated SmartNIC
	VMInit        string `json:",omitempty"` // of these nodes: "", the lab's own, or InitSystemd
	// Moved are addresses that nodes have been given in the place of theirs.
	Moved        map[string][]netip.Addr `json:",omitempty"`
	Families     string                  // ipv4, dual or ipv6
	Subnets      []netip.Prefix          // of the fabric
	PodCIDRs     []netip.Prefix
	ServiceCIDRs []netip.Prefix
	CNI          string
	Multus       bool      `json:",omitempty"` // beside ovn-offload
	Suite        string    // of Debian, for OVS and OVN in the image; "": the default
	Repo         string    `json:"-"` // root of the repository
	Product      string    `json:"-"` // checkout whose chart and image are installed; "": Repo
	CacheDir     string    `json:"-"`
	ChartValues  []string  `json:"-"` // PATH=VALUE, over those of the lab
	Command      string    `json:"-"` // the lab's binary, executed as init of machines
	Out          io.Writer `json:"-"` // progress
}

// Defaults is the lab of `make lab`, of the repository that dir is in.
func Defaults(dir string) (Config, error) {
	cfg := Config{
		Name: "lab", ControlPlanes: 1, Nodes: 3, Families: "ipv4", CNI: CNIOffload, Out: os.Stdout,
		Subnets:      []netip.Prefix{netip.MustParsePrefix("172.18.0.0/16"), netip.MustParsePrefix("fc00:f853:ccd:e793::/64")},
		PodCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")},
	}
	var err error
	if cfg.Repo, err = repository(dir); err != nil {
		return Config{}, err
	}
	if cfg.Command, err = os.Executable(); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// repository is the nearest directory upwards that has the lab in it.
func repository(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack/lab/kubernetes/go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the lab is run from inside the repository of ovn-offload")
		}
	}
}

// Validate also fills in what follows from the rest.
func (c *Config) Validate() error {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`).MatchString(c.Name) {
		return fmt.Errorf("name %q: want lower case letters, digits and dashes, 31 at most", c.Name)
	}
	if err := c.validateNodes(); err != nil {
		return err
	}
	if c.CNI != CNIOffload && c.CNI != CNIBridge {
		return fmt.Errorf("network %q: want %s or %s", c.CNI, CNIOffload, CNIBridge)
	}
	if c.Families != "ipv4" && c.Families != "dual" && c.Families != "ipv6" {
		return fmt.Errorf("families %q: want ipv4, dual or ipv6", c.Families)
	}
	if err := c.validatePrefixes(); err != nil {
		return err
	}
	if c.Workdir == "" {
		c.Workdir = filepath.Join(c.Repo, "_output", c.Name)
	}
	var err error
	c.Workdir, err = filepath.Abs(c.Workdir)
	return err
}

func (c *Config) validateNodes() error {
	c.ControlPlanes = max(c.ControlPlanes, 1) // labs of earlier versions do not name it
	if c.ControlPlanes != 1 && c.ControlPlanes != 3 {
		return fmt.Errorf("%d control-plane nodes: want 1 or 3", c.ControlPlanes)
	}
	if c.Nodes < c.ControlPlanes || c.Nodes > 90 {
		return fmt.Errorf("%d nodes: want %d to 90", c.Nodes, c.ControlPlanes)
	}
	if c.VMNodes < 0 || c.VMNodes > 4 || c.VMNodes > 0 && c.CNI != CNIOffload {
		return fmt.Errorf("%d nodes that are VMs: want 0 to 4, and the network %s", c.VMNodes, CNIOffload)
	}
	if c.VMInit != "" && c.VMInit != InitSystemd {
		return fmt.Errorf("init %q of nodes that are VMs: want %s or none", c.VMInit, InitSystemd)
	}
	return nil
}

// validatePrefixes leaves one prefix a family in each list.
func (c *Config) validatePrefixes() error {
	for _, list := range []struct {
		name     string
		prefixes *[]netip.Prefix
	}{{"subnet", &c.Subnets}, {"pod-cidr", &c.PodCIDRs}, {"service-cidr", &c.ServiceCIDRs}} {
		*list.prefixes = c.ofFamilies(*list.prefixes)
		if want := len(strings.Split(map[string]string{"ipv4": "4", "ipv6": "6", "dual": "4,6"}[c.Families], ",")); len(*list.prefixes) != want {
			return fmt.Errorf("%s %v: want one prefix a family (%s)", list.name, *list.prefixes, c.Families)
		}
	}
	for _, subnet := range c.Subnets {
		if subnet.Bits() > subnet.Addr().BitLen()-8 {
			return fmt.Errorf("subnet %s: want at least 256 addresses", subnet)
		}
	}
	return nil
}

func (c *Config) ofFamilies(prefixes []netip.Prefix) []netip.Prefix {
	var chosen []netip.Prefix
	for _, prefix := range prefixes {
		family := "ipv6"
		if prefix.Addr().Is4() {
			family = "ipv4"
		}
		if c.Families == "dual" || c.Families == family {
			chosen = append(chosen, prefix.Masked())
		}
	}
	return chosen
}

// NodeNames are in the order in which the nodes are numbered.
func (c *Config) NodeNames() []string {
	names := append(numbered("ovn-control-plane", c.ControlPlanes), numbered("ovn-worker", c.Nodes-c.ControlPlanes)...)
	return append(names, c.VMNames()...)
}

// ControlNodes are the first of NodeNames.
func (c *Config) ControlNodes() []string { return c.NodeNames()[:c.ControlPlanes] }

// numbered gives name, name2, name3, ...
func numbered(name string, count int) []string {
	var names []string
	for i := range count {
		if i > 0 {
			names = append(names, name+fmt.Sprint(i+1))
			continue
		}
		names = append(names, name)
	}
	return names
}

// VMNames are the last of NodeNames, those that are VMs.
func (c *Config) VMNames() []string { return numbered("ovn-smartnic", c.VMNodes) }

// isVM: it is one of VMNames.
func (c *Config) isVM(machine string) bool { return slices.Contains(c.VMNames(), machine) }

// pulls: there are nodes that pull their images from the registry.
func (c *Config) pulls() bool { return c.VMInit == InitSystemd }

// hasSystemd: it is one of VMNames, and boots with systemd.
func (c *Config) hasSystemd(machine string) bool { return c.pulls() && c.isVM(machine) }

// Addresses are those of a node, of Outside or of balancer on the fabric, one a family; of the gateway for any other
// name.
func (c *Config) Addresses(machine string) []netip.Addr {
	if moved := c.Moved[machine]; moved != nil {
		return moved
	}
	number := byte(1)
	switch machine {
	case Outside:
		number = 100
	case balancer:
		number = 101
	}
	// Further control-plane nodes take no address of the others.
	others := slices.Delete(c.NodeNames(), 1, c.ControlPlanes)
	for i, name := range others {
		if name == machine {
			number = []byte{3, 2, byte(2 + i)}[min(i, 2)]
		}
	}
	if i := slices.Index(c.ControlNodes(), machine); i > 0 {
		number = byte(101 + i)
	}
	var addrs []netip.Addr
	for _, subnet := range c.Subnets {
		raw := subnet.Addr().AsSlice()
		raw[len(raw)-1] = number
		addr, _ := netip.AddrFromSlice(raw)
		addrs = append(addrs, addr)
	}
	return addrs
}

// apiAddress is where components reach the API server: the load balancer's if there are several.
func (c *Config) apiAddress() netip.AddrPort {
	if c.ControlPlanes > 1 {
		return c.endpoint(balancer, apiPort)
	}
	return c.endpoint(c.NodeNames()[0], apiPort)
}

// endpoint is a port of a machine's first address.
func (c *Config) endpoint(machine string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(c.Addresses(machine)[0], port)
}

func join[T fmt.Stringer](list []T) string {
	var parts []string
	for _, item := range list {
		parts = append(parts, item.String())
	}
	return strings.Join(parts, ",")
}
