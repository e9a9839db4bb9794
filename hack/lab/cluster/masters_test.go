package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

// flags are the named ones of a service, with their values.
func flags(t *testing.T, services []machine.Service, service string, names ...string) []string {
	t.Helper()
	var got []string
	for _, s := range services {
		for _, arg := range s.Args {
			if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); s.Name == service && slices.Contains(names, name) {
				got = append(got, arg)
			}
		}
	}
	return got
}

func TestServices_OneControlPlaneHasNoElection(t *testing.T) {
	services := lab(t, func(*Config) {}).services("ovn-control-plane")
	for service, names := range map[string][]string{
		"etcd": {"name", "initial-cluster", "peer-cert-file"}, "kubelet": {"register-with-taints"},
	} {
		if got := flags(t, services, service, names...); len(got) > 0 {
			t.Errorf("%s has %v", service, got)
		}
	}
	for _, service := range []string{"kube-scheduler", "kube-controller-manager"} {
		if got := flags(t, services, service, "leader-elect"); !slices.Equal(got, []string{"--leader-elect=false"}) {
			t.Errorf("%s has %v", service, got)
		}
	}
	if services := lab(t, func(*Config) {}).services(fabric); len(services) > 0 {
		t.Errorf("there is a load balancer: %v", services)
	}
}

func TestServices_ThreeControlPlanesFormACluster(t *testing.T) {
	l := lab(t, func(c *Config) { c.ControlPlanes, c.Nodes = 3, 4 })
	services := l.services("ovn-control-plane2")
	want := []string{
		"--name=ovn-control-plane2",
		"--initial-cluster=ovn-control-plane=https://172.18.0.3:2380,ovn-control-plane2=https://172.18.0.102:2380,ovn-control-plane3=https://172.18.0.103:2380",
		"--initial-cluster-state=new", "--listen-peer-urls=https://172.18.0.102:2380", "--peer-client-cert-auth",
	}
	got := flags(t, services, "etcd", "name", "initial-cluster", "initial-cluster-state", "listen-peer-urls", "peer-client-cert-auth")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	joinExisting(services)
	if got := flags(t, services, "etcd", "initial-cluster-state"); !slices.Equal(got, []string{"--initial-cluster-state=existing"}) {
		t.Errorf("a member that joins has %v", got)
	}
	if got := flags(t, services, "kube-apiserver", "etcd-servers", "advertise-address"); !slices.Equal(got, []string{"--advertise-address=172.18.0.102", "--etcd-servers=https://127.0.0.1:2379"}) {
		t.Errorf("the API server has %v", got)
	}
	if got := flags(t, services, "kube-scheduler", "leader-elect"); !slices.Equal(got, []string{"--leader-elect=true"}) {
		t.Errorf("the scheduler has %v", got)
	}
	if got := flags(t, l.services("ovn-worker"), "etcd", "name"); len(got) > 0 {
		t.Errorf("a worker has etcd: %v", got)
	}
}

func TestBalancer_HasEachAPIServer(t *testing.T) {
	l := lab(t, func(c *Config) { c.ControlPlanes, c.Nodes, c.Families = 3, 3, "ipv6" })
	ca, err := openAuthority(l.path("pki"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := l.balancerFiles(dir, ca); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"bind [fc00:f853:ccd:e793::65]:6443", "server ovn-control-plane [fc00:f853:ccd:e793::3]:6443",
		"server ovn-control-plane2 [fc00:f853:ccd:e793::66]:6443", "server ovn-control-plane3 [fc00:f853:ccd:e793::67]:6443",
	} {
		if !strings.Contains(string(config), "    "+line+"\n") {
			t.Errorf("no line %q in:\n%s", line, config)
		}
	}
}

// A member of etcd is replaced when the cluster has been formed and the member's data are gone.
func TestLab_MemberWithoutDataIsReplaced(t *testing.T) {
	l := lab(t, func(c *Config) { c.ControlPlanes, c.Nodes = 3, 4 })
	const node = "ovn-control-plane3"
	if l.lostMember(node) {
		t.Error("of a cluster that is not formed yet")
	}
	l.formed = true
	if !l.lostMember(node) {
		t.Error("a member without data is kept")
	}
	if l.lostMember("ovn-worker") {
		t.Error("a worker is taken for a member")
	}
	data := filepath.Join(l.spec(node).Upper(), etcdData, "member")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if l.lostMember(node) {
		t.Error("a member with data is replaced")
	}
	if err := l.Erase(node, "/var/lib/etcd"); err != nil || !l.lostMember(node) {
		t.Errorf("after its directory was erased: %v", err)
	}
}

func TestLab_EraseStaysOnTheDisk(t *testing.T) {
	l := lab(t, func(c *Config) { c.Name, c.ControlPlanes, c.Nodes = "no-such-lab", 3, 4 })
	const node = "ovn-worker"
	beside := l.path("machines", "beside")
	gone, kept := filepath.Join(l.spec(node).Upper(), "var/lib/ovn"), filepath.Join(l.spec(node).Upper(), "etc")
	for _, dir := range []string{beside, gone, kept} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/var/lib/ovn", "../../beside"} {
		if err := l.Erase(node, dir); err != nil {
			t.Fatal(err)
		}
	}
	if isDir(gone) || !isDir(kept) || !isDir(beside) {
		t.Errorf("erased %t, others kept %t, %t", !isDir(gone), isDir(kept), isDir(beside))
	}
	if err := l.Erase(node, ""); err != nil || isDir(kept) || !isDir(beside) {
		t.Errorf("erased %t, %v", !isDir(kept), err)
	}
}

func TestLab_PowerVerbsRefuse(t *testing.T) {
	l := lab(t, func(c *Config) { c.Name = "no-such-lab" })
	for name, err := range map[string]error{
		"off, which is off":                 l.PowerOff("ovn-worker"),
		"off, which is no node":             l.PowerOff(fabric),
		"on, which is no node":              l.PowerOn(t.Context(), "ovn-worker9"),
		"on, in a lab that is not up":       l.PowerOn(t.Context(), "ovn-worker"),
		"erase, which is no node":           l.Erase("ovn-worker9", ""),
		"erase, the only node with etcd":    l.Erase("ovn-control-plane", ""),
		"erase, a directory of the same":    l.Erase("ovn-control-plane", "/var/lib/etcd"),
		"restart, on a node that is absent": l.Restart(t.Context(), "nb@ovn-control-plane"),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The kernel's boot id stays when a node of the lab boots. Records of it are changed, and none is made.
func TestLab_BootFindsAnotherBootID(t *testing.T) {
	l := lab(t, func(*Config) {})
	record := filepath.Join(l.spec("ovn-worker").Upper(), bootRecords()[0])
	if err := os.MkdirAll(filepath.Dir(record), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte("id\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.forgetBoot("ovn-worker"); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(record); err != nil || string(data) == "id\n" {
		t.Errorf("the record is %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(l.spec("ovn-worker").Upper(), bootRecords()[1])); err == nil {
		t.Error("there is a record of a daemon that made none")
	}
}
