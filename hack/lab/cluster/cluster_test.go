package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

func defaults(t *testing.T) Config {
	t.Helper()
	cfg, err := Defaults(".")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Workdir, cfg.CacheDir, cfg.Out = t.TempDir(), t.TempDir(), io.Discard
	return cfg
}

func lab(t *testing.T, change func(*Config)) *Lab {
	t.Helper()
	cfg := defaults(t)
	change(&cfg)
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConfig_AddressesOfEachMachine(t *testing.T) {
	cfg := lab(t, func(c *Config) { c.Nodes, c.VMNodes, c.Families = 4, 2, "dual" }).Config()
	got := map[string]string{}
	for _, name := range append(cfg.NodeNames(), Outside, fabric) {
		got[name] = join(cfg.Addresses(name))
	}
	want := map[string]string{
		"ovn-control-plane": "172.18.0.3,fc00:f853:ccd:e793::3",
		"ovn-worker":        "172.18.0.2,fc00:f853:ccd:e793::2",
		"ovn-worker2":       "172.18.0.4,fc00:f853:ccd:e793::4",
		"ovn-worker3":       "172.18.0.5,fc00:f853:ccd:e793::5",
		"ovn-smartnic":      "172.18.0.6,fc00:f853:ccd:e793::6",
		"ovn-smartnic2":     "172.18.0.7,fc00:f853:ccd:e793::7",
		Outside:             "172.18.0.100,fc00:f853:ccd:e793::64",
		fabric:              "172.18.0.1,fc00:f853:ccd:e793::1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Workers keep the addresses that they have beside one control-plane node.
func TestConfig_AddressesOfThreeControlPlanes(t *testing.T) {
	cfg := lab(t, func(c *Config) { c.Nodes, c.ControlPlanes = 5, 3 }).Config()
	var got []string
	for _, name := range append(cfg.NodeNames(), balancer) {
		got = append(got, name+" "+join(cfg.Addresses(name)))
	}
	want := []string{
		"ovn-control-plane 172.18.0.3", "ovn-control-plane2 172.18.0.102", "ovn-control-plane3 172.18.0.103",
		"ovn-worker 172.18.0.2", "ovn-worker2 172.18.0.4", "load-balancer 172.18.0.101",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, want := cfg.apiAddress().String(), "172.18.0.101:6443"; got != want {
		t.Errorf("components reach the API server at %s, want %s", got, want)
	}
}

func TestConfig_InvalidSettingsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"name with a slash":     func(c *Config) { c.Name = "../x" },
		"no node":               func(c *Config) { c.Nodes = 0 },
		"two control planes":    func(c *Config) { c.ControlPlanes = 2 },
		"fewer nodes than that": func(c *Config) { c.ControlPlanes, c.Nodes = 3, 2 },
		"VMs with another init": func(c *Config) { c.VMNodes, c.VMInit = 1, "upstart" },
		"VMs with the bridge":   func(c *Config) { c.VMNodes, c.CNI = 1, CNIBridge },
		"unknown network":       func(c *Config) { c.CNI = "x" },
		"unknown families":      func(c *Config) { c.Families = "ipv5" },
		"a subnet too small":    func(c *Config) { c.Subnets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")} },
		"no prefix of a family": func(c *Config) { c.Families, c.PodCIDRs = "ipv6", c.PodCIDRs[:1] },
	} {
		cfg := defaults(t)
		change(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	cfg := defaults(t)
	if err := cfg.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestBridgeSubnets_OneOfEachFamilyPerNode(t *testing.T) {
	cfg := lab(t, func(c *Config) { c.Families = "dual" }).Config()
	if got, want := join(bridgeSubnets(cfg.PodCIDRs, 2)), "10.244.2.0/24,fd00:10:244:2::/64"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLab_OtherSettingsAreRefused(t *testing.T) {
	first := lab(t, func(*Config) {})
	if err := first.keepState(); err != nil {
		t.Fatal(err)
	}
	again, err := New(first.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.keepState(); err != nil {
		t.Errorf("the same settings: %v", err)
	}
	cfg := first.Config()
	cfg.Nodes = 5
	other, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.keepState(); err == nil {
		t.Error("another number of nodes was accepted")
	}
	cfg = first.Config()
	cfg.VMNodes = 1
	more, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Lab{more, again} { // the second asks for none, and keeps it
		if err := l.keepState(); err != nil || l.Config().VMNodes != 1 {
			t.Errorf("%d nodes that are VMs after one was added: %v", l.Config().VMNodes, err)
		}
	}
	opened, err := Open(Config{Name: cfg.Name, Nodes: 1, CNI: cfg.CNI, Families: "ipv4", Subnets: cfg.Subnets, PodCIDRs: cfg.PodCIDRs,
		ServiceCIDRs: cfg.ServiceCIDRs, Repo: cfg.Repo, Workdir: cfg.Workdir, CacheDir: cfg.CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	if opened.Config().Nodes != first.Config().Nodes {
		t.Errorf("opened with %d nodes, made with %d", opened.Config().Nodes, first.Config().Nodes)
	}
}

func TestLab_DownKeepsDirectoriesOfOthers(t *testing.T) {
	l := lab(t, func(c *Config) { c.Name = "no-such-lab" })
	keep := filepath.Join(l.Config().Workdir, "precious")
	if err := os.WriteFile(keep, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
}

func TestComponent_IsKnownByCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"ovsdb-server --config-file=/run/ovn/ovnnb_db.json --unixctl=x":  "nb",
		"ovsdb-server --config-file=/run/ovn/ovnsb_db.json":              "sb",
		"ovsdb-server /etc/openvswitch/conf.db":                          "",
		"/usr/local/bin/ovn-offload-controller --lease-namespace=system": "controller",
		"ovn-offload-controller certs":                                   "identity",
		"ovs-vswitchd unix:/run/openvswitch/db.sock":                     "ovs-vswitchd",
		"containerd-shim-runc-v2 -namespace k8s.io":                      "",
		"grep ovs-vswitchd":                                              "",
	} {
		got := ""
		for name, c := range components() {
			if c.is(machine.Process{Args: strings.Fields(line)}) {
				got += name
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", line, got, want)
		}
	}
}

func TestLab_RestartRefusesUnknownComponents(t *testing.T) {
	l := lab(t, func(c *Config) { c.Name = "no-such-lab" })
	for _, name := range []string{"nonsense", "nonsense@ovn-worker", "kubelet", "etcd@ovn-worker", "etcd", "kubelet@ovn-worker"} {
		if err := l.Restart(t.Context(), name); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestChartValues_AreAcceptedByChart: a VM has the DaemonSets of its group, with the kernel's datapath, and no other.
func TestChartValues_AreAcceptedByChart(t *testing.T) {
	for vms, want := range map[int][]string{0: {"ovnkube-node"}, 1: {"ovnkube-node-vm", "ovnkube-node"}} {
		l := lab(t, func(c *Config) { c.Families, c.VMNodes = "dual", vms })
		l.fingerprints = map[string]string{l.productImage(): "abc"}
		values := l.chartValues("netdev")
		values["apiServer"], values["databases"] = "https://192.0.2.1:6443", map[string]any{"address": "192.0.2.1"}
		rendered, err := deploy.Render(values)
		if err != nil {
			t.Fatal(err)
		}
		var sets []string
		for document := range strings.SplitSeq(rendered["70-ovnkube-node.yaml"], "\n---\n") {
			var set appsv1.DaemonSet
			if err := yaml.Unmarshal([]byte(document), &set); err != nil {
				t.Fatal(err)
			}
			sets = append(sets, set.Name)
			if set.Spec.Template.Annotations["image-fingerprint"] != "abc" {
				t.Errorf("%s: annotations %v", set.Name, set.Spec.Template.Annotations)
			}
		}
		if !slices.Equal(sets, want) {
			t.Errorf("with %d VMs: DaemonSets %v, want %v", vms, sets, want)
		}
	}
}

func TestAuthority_CertifiesNamedAddressesOnly(t *testing.T) {
	dir := t.TempDir()
	ca, err := openAuthority(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	reopened, err := openAuthority(filepath.Join(dir, "pki"))
	if err != nil || !reopened.cert.Equal(ca.cert) {
		t.Fatalf("the authority is another one when opened again: %v", err)
	}
	base := filepath.Join(dir, "server")
	address := netip.MustParseAddr("172.18.0.3")
	if err := reopened.issue(base, identity{user: "server", names: []string{"localhost"}, addrs: []netip.Addr{address}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(base+".crt", base+".key"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(base + ".crt")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: address.String()}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "172.18.0.4"}); err == nil {
		t.Error("the certificate is good for an address that it does not name")
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := ca.kubeconfig(path, "https://127.0.0.1:1", identity{user: "admin", groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	if cfg, err := clientcmd.BuildConfigFromFlags("", path); err != nil || cfg.Host != "https://127.0.0.1:1" || len(cfg.CertData) == 0 {
		t.Errorf("client configuration %v, %v", cfg, err)
	}
}

func TestPingResult_LastAnswerOrNone(t *testing.T) {
	const out = "64 bytes from 10.244.2.4: icmp_seq=1 ttl=63 time=1.52 ms\n64 bytes from 10.244.2.4: icmp_seq=2 ttl=63 time=0.6 ms\n\n--- statistics ---\n"
	if got, want := pingResult(out), "ttl=63 time=0.6 ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := pingResult("2 packets transmitted, 0 received"), "no answer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An image of another checkout does not replace the repository's own.
func TestLab_ProductOfAnotherCheckoutHasItsOwnImage(t *testing.T) {
	l := lab(t, func(*Config) {})
	own := l.productImage()
	l.bin.Product = l.cfg.Repo
	if got := l.productImage(); got != own {
		t.Errorf("the repository's image is %s, want %s", got, own)
	}
	l.bin.Product = t.TempDir()
	if got := l.productImage(); got == own || filepath.Dir(got) != l.path("images") {
		t.Errorf("the other image is %s", got)
	}
}

// A node that boots with systemd pulls its images from fabric, and is given other addresses while it is off.
func TestSystemd_NodePullsFromRegistryAndMoves(t *testing.T) {
	l := lab(t, func(c *Config) { c.Name, c.Nodes, c.VMNodes, c.VMInit = "no-such-lab", 1, 1, InitSystemd })
	var names []string
	for _, service := range l.services(fabric) {
		names = append(names, service.Name)
	}
	if want := []string{"registry"}; !slices.Equal(names, want) {
		t.Errorf("services of fabric: %v, want %v", names, want)
	}
	ca, err := openAuthority(l.path("pki"))
	if err != nil {
		t.Fatal(err)
	}
	for node, mirrored := range map[string]bool{"ovn-control-plane": false, "ovn-smartnic": true} {
		dir := t.TempDir()
		if err := l.nodeFiles(node, dir, ca); err != nil {
			t.Fatal(err)
		}
		config, err := os.ReadFile(filepath.Join(dir, "containerd.toml"))
		if err != nil {
			t.Fatal(err)
		}
		hosts, _ := os.ReadFile(filepath.Join(dir, "certs.d/_default/hosts.toml"))
		if strings.Contains(string(config), "config_path = '/etc/kubernetes/certs.d'") != mirrored || strings.Contains(string(hosts), "http://172.18.0.1:5000") != mirrored {
			t.Errorf("%s: containerd.toml\n%s\nhosts.toml\n%s", node, config, hosts)
		}
	}
	address := netip.MustParseAddr("172.18.0.77")
	for node, addrs := range map[string][]netip.Addr{"ovn-control-plane": {address}, "ovn-smartnic": {address, address}} {
		if err := l.move(node, addrs); err == nil {
			t.Errorf("%s moved to %v", node, addrs)
		}
	}
	if err := l.move("ovn-smartnic", []netip.Addr{address}); err != nil {
		t.Fatal(err)
	}
	again := lab(t, func(c *Config) { *c = l.cfg; c.Moved = nil })
	if err := again.keepState(); err != nil {
		t.Fatal(err)
	}
	if got := join(again.cfg.Addresses("ovn-smartnic")); got != address.String() {
		t.Errorf("the address of another run of the lab is %s", got)
	}
}
