package machine

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVM_ConnectionHasAddressAndGatewayOfEachFamily(t *testing.T) {
	v := &VM{
		Addresses: []netip.Prefix{netip.MustParsePrefix("172.18.0.2/16"), netip.MustParsePrefix("fc00::2/64")},
		Gateways:  []netip.Addr{netip.MustParseAddr("172.18.0.1"), netip.MustParseAddr("fc00::1")},
	}
	const head = "[connection]\nid=uplink\ntype=ethernet\n[ethernet]\nmac-address=52:54:00:00:01:00\n"
	const v4 = "[ipv4]\nmethod=manual\naddress1=172.18.0.2/16\ngateway=172.18.0.1\n"
	if diff := cmp.Diff(head+v4+"[ipv6]\nmethod=manual\naddress1=fc00::2/64\ngateway=fc00::1\n", v.connection()); diff != "" {
		t.Error(diff)
	}
	v.Addresses, v.Gateways = v.Addresses[:1], v.Gateways[:1]
	if diff := cmp.Diff(head+v4+"[ipv6]\nmethod=link-local\n", v.connection()); diff != "" {
		t.Error(diff)
	}
}

func TestService_UnitOutlivesItsContainers(t *testing.T) {
	text, err := Service{Name: "kubelet", Args: []string{"sh", "--node-ip", "172.18.0.2"}}.unit("NetworkManager.service containerd.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"After=NetworkManager.service containerd.service", "Restart=always", "KillMode=process", "Delegate=yes",
		"StandardOutput=append:/var/log/kubelet.log",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if _, command, _ := strings.Cut(text, "ExecStart="); !strings.HasPrefix(command, "/") || !strings.Contains(command, "/sh --node-ip 172.18.0.2\n") {
		t.Errorf("the command in\n%s", text)
	}
	if _, err := (Service{Name: "none", Args: []string{"no-such-program"}}).unit(""); err == nil {
		t.Error("a program that is not there has a unit")
	}
}

func TestErase_RemovesOnceWhatWasAskedWhileOff(t *testing.T) {
	spec := Spec{Dir: t.TempDir()}
	gone, kept := filepath.Join(spec.Dir, "state"), filepath.Join(spec.Dir, "other")
	for _, dir := range []string{gone, kept, spec.Config()} {
		if err := os.MkdirAll(filepath.Join(dir, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.Erase(gone); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(spec.Config(), erasures)
	if err := erase(list); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("%s: %v", gone, err)
	}
	if _, err := os.Stat(filepath.Join(kept, "below")); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(gone, 0o755); err != nil { // of the boot after
		t.Fatal(err)
	}
	if err := erase(list); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); err != nil {
		t.Errorf("removed at the second boot: %v", err)
	}
}
