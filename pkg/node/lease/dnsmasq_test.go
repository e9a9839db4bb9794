package lease

import (
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

const inside = "OVN_OFFLOAD_INSIDE"

// TestFollower_RealServer: a lease that the NIC got goes on over the bridge that has taken the NIC over, against the
// real dnsmasq in namespaces of the test.
func TestFollower_RealServer(t *testing.T) {
	if os.Getenv(inside) != "" {
		realServer(t)
		return
	}
	for _, program := range []string{"dnsmasq", "unshare", "ip"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 {
			t.Skipf("needs root and %s (Debian's dnsmasq-base, util-linux, iproute2)", program)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
		os.Args[0], "-test.run=^TestFollower_RealServer$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=yes")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatal(err)
	}
}

func run(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// serve starts dnsmasq with a range of addresses; the returned function ends it.
func serve(t *testing.T, addresses string) (end func()) {
	t.Helper()
	leases := filepath.Join(t.TempDir(), "leases")
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", "server", "dnsmasq", "--keep-in-foreground", "--port=0", "--conf-file=/dev/null",
		"--user=root", "--pid-file=", "--dhcp-authoritative", "--no-ping", "--dhcp-leasefile="+leases, "--dhcp-range="+addresses+",255.255.255.0,120", "--log-dhcp", "--log-facility=-")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
}

func realServer(t *testing.T) {
	for _, command := range []string{
		"mount --make-rprivate / && mount -t tmpfs tmpfs /run", "ip netns add server", "ip link set lo up",
		"ip link add eth0 type veth peer name cable netns server", "ip -n server addr add 192.0.2.1/24 dev cable", "ip -n server link set cable up", "ip link set eth0 up",
	} {
		run(t, command)
	}
	ns, err := netdev.Open("")
	if err != nil {
		t.Fatal(err)
	}
	nic, err := ns.Link("eth0")
	if err != nil {
		t.Fatal(err)
	}
	host := Lease{MAC: []byte(nic.MAC), ClientID: "ff00000001"}
	end := serve(t, "192.0.2.50,192.0.2.59")
	client := DHCP{Timeout: time.Second, Attempts: 2}
	got, err := client.Acquire(t.Context(), "eth0", host)
	if err != nil || got.Time != 2*time.Minute || got.Router.String() != "192.0.2.1" || got.Address.Bits() != 24 {
		t.Fatalf("%+v, %v", got, err)
	}
	host.Address, host.Ends = got.Address, time.Now().Add(got.Time)
	// The takeover: the bridge has the MAC and the address of its port.
	run(t, "ip link add breth0 type bridge && ip link set breth0 address "+nic.MAC.String()+" && ip link set eth0 master breth0 && ip link set breth0 up && ip addr add "+got.Address.String()+" dev breth0")
	run(t, "ip route add default via 192.0.2.1 dev breth0")
	if _, err := client.Extend(t.Context(), "eth0", host); err == nil { // the control: the host's client on the NIC
		t.Error("the NIC gets an answer although it is a port of the bridge")
	}
	var warned []string
	f := &Follower{file: filepath.Join(t.TempDir(), "lease.json"), lease: host, deps: Deps{
		Client: client, Links: ns, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Warn: func(_ Lease, reason, _ string) { warned = append(warned, reason) },
	}}
	if next, err := f.pass(t.Context()); err != nil || next != time.Minute || f.lease.Address != got.Address || f.lease.Ends.Before(time.Now().Add(110*time.Second)) {
		t.Fatalf("extending: again in %s, %+v, %v", next, f.lease, err)
	}
	other := host
	other.ClientID = "ff00000002"
	if a, err := client.Acquire(t.Context(), "breth0", other); err != nil || a.Address == got.Address { // the control: another client
		t.Errorf("another client gets %+v, %v", a, err)
	}
	end()
	if _, err := f.pass(t.Context()); err == nil || !slices.Equal(warned, []string{"LeaseNotRenewed"}) || !has(t, ns, got.Address) {
		t.Errorf("without the server: %v, warned %v", err, warned)
	}
	end = serve(t, "192.0.2.70,192.0.2.79")
	defer end()
	if _, err := f.pass(t.Context()); err != nil || f.lease.Address == got.Address || !slices.Contains(warned, "LeaseChanged") ||
		!has(t, ns, f.lease.Address) || !has(t, ns, got.Address) {
		t.Errorf("a server with other addresses: %+v, %v, warned %v", f.lease, err, warned)
	}
	if next, err := f.pass(t.Context()); err != nil || next != time.Minute { // the new one goes on in its turn
		t.Errorf("extending the other address: again in %s, %v", next, err)
	}
}

func has(t *testing.T, ns *netdev.NS, address netip.Prefix) bool {
	t.Helper()
	addrs, err := ns.Addrs("breth0")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(addrs, address)
}
