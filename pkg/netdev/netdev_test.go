package netdev_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// space is what NS and FakeNS have in common.
type space interface {
	linkSpace
	addrSpace
	mover
	hostSpace
}

type hostSpace interface {
	Watch(ctx context.Context) (<-chan netdev.Event, error)
	Sysctl(path, value string) error
	AddPolicyRule(r netdev.PolicyRule) error
	Close() error
}

type linkSpace interface {
	Link(name string) (netdev.Link, error)
	Links() ([]netdev.Link, error)
	AddVeth(v netdev.Veth) error
	SetLink(name string, s netdev.Settings) error
	DeleteLink(name string) error
}

type addrSpace interface {
	addrsOnly
	Routes(link string) ([]netdev.Route, error)
	ReplaceRoute(r netdev.Route) error
	DeleteRoute(r netdev.Route) error
	ReplaceNeighbor(e netdev.Neighbor) error
}

type addrsOnly interface {
	Addrs(name string) ([]netip.Prefix, error)
	AllAddrs() (map[int][]netip.Prefix, error)
	ReplaceAddr(name string, p netip.Prefix, o netdev.AddrOptions) error
	DeleteAddr(name string, p netip.Prefix) error
}

var (
	_ space = (*netdev.NS)(nil)
	_ space = (*netdevtest.FakeNS)(nil)
)

// world is a kernel with two namespaces, host and pod.
type world struct {
	host, pod         space
	hostPath, podPath string
}

// onBoth runs a test on the kernel, if it may, and on the fake.
func onBoth(t *testing.T, test func(t *testing.T, w world)) {
	t.Run("kernel", func(t *testing.T) {
		hostPath, podPath := netdevtest.NewNS(t), netdevtest.NewNS(t)
		test(t, world{host: open(t, hostPath), pod: open(t, podPath), hostPath: hostPath, podPath: podPath})
	})
	t.Run("fake", func(t *testing.T) {
		f := netdevtest.NewFake()
		f.AddNS("/pod")
		host, err := f.Open("")
		must(t, err)
		pod, err := f.Open("/pod")
		must(t, err)
		f.AddLink("", netdev.Link{Name: "lo", Type: "device"})
		f.AddLink("/pod", netdev.Link{Name: "lo", Type: "device"})
		test(t, world{host: host, pod: pod, podPath: "/pod"})
	})
}

func open(t testing.TB, path string) *netdev.NS {
	t.Helper()
	ns, err := netdev.Open(path)
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var podMAC = net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 1, 5}

func addPair(t *testing.T, w world) {
	t.Helper()
	must(t, w.host.AddVeth(netdev.Veth{
		Name: "veth0", Alias: "ours", MTU: 1400, Peer: netdev.Peer{Path: w.podPath, Name: "eth0", MAC: podMAC},
	}))
}

func up(t *testing.T, w world) {
	t.Helper()
	must(t, w.host.SetLink("veth0", netdev.Settings{State: netdev.Up, NoLinkLocal: true}))
	must(t, w.pod.SetLink("eth0", netdev.Settings{State: netdev.Up, NoLinkLocal: true}))
}

func TestSetLink_SwitchesARPOffAndOn(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		for _, want := range []bool{false, true} {
			must(t, w.host.SetLink("veth0", netdev.Settings{NoARP: want, State: netdev.Up}))
			if l, err := w.host.Link("veth0"); err != nil || l.NoARP != want || !l.Up {
				t.Errorf("asked for %t: %+v, %v", want, l, err)
			}
		}
	})
}

// TestSetLink_ClearsFlags: a pod with NET_ADMIN sets flags of a link, which the link keeps in another namespace.
func TestSetLink_ClearsFlags(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		must(t, w.pod.SetLink("eth0", netdev.Settings{NoARP: true, State: netdev.Up}))
		flags := func() uint32 { return 0 }
		if w.hostPath != "" {
			pod := netdevtest.Handle(t, w.podPath)
			flags = func() uint32 {
				link, err := pod.LinkByName("eth0")
				must(t, err)
				return link.Attrs().RawFlags & (unix.IFF_NOARP | unix.IFF_PROMISC | unix.IFF_ALLMULTI)
			}
			link, err := pod.LinkByName("eth0")
			must(t, err)
			must(t, errors.Join(pod.SetPromiscOn(link), pod.LinkSetAllmulticastOn(link)))
			if flags() != unix.IFF_NOARP|unix.IFF_PROMISC|unix.IFF_ALLMULTI {
				t.Fatalf("the flags are not set: %#x", flags())
			}
		}
		must(t, w.pod.SetLink("eth0", netdev.Settings{NoFlags: true}))
		if l, err := w.pod.Link("eth0"); err != nil || l.NoARP || flags() != 0 || !l.Up {
			t.Errorf("%+v, flags %#x, %v", l, flags(), err)
		}
	})
}

func TestAddVeth_ConfiguresBothEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		eth0, err := w.pod.Link("eth0")
		must(t, err)
		want := netdev.Link{Name: "eth0", Type: "veth", MAC: podMAC, MTU: 1400}
		if diff := cmp.Diff(want, eth0, cmpopts.IgnoreFields(netdev.Link{}, "Index")); diff != "" {
			t.Errorf("peer (-want +got):\n%s", diff)
		}
		veth0, err := w.host.Link("veth0")
		must(t, err)
		if veth0.Alias != "ours" || veth0.MTU != 1400 || veth0.Up {
			t.Errorf("near end is %+v", veth0)
		}
		if _, err := w.host.Link("eth0"); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("the peer shows in the host's namespace: %v", err)
		}
		up(t, w)
		if eth0, err = w.pod.Link("eth0"); err != nil || !eth0.Up || !eth0.Carrier {
			t.Errorf("with both ends up: %+v, %v", eth0, err)
		}
	})
}

func TestAddVeth_TakenNameIsAnError(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		for _, names := range [][2]string{{"veth0", "eth1"}, {"veth1", "eth0"}} {
			err := w.host.AddVeth(netdev.Veth{Name: names[0], MTU: 1400, Peer: netdev.Peer{Path: w.podPath, Name: names[1]}})
			if !errors.Is(err, netdev.ErrExists) {
				t.Errorf("pair %v: %v, want ErrExists", names, err)
			}
		}
		if links, _ := w.host.Links(); len(links) != 2 {
			t.Errorf("host has %v, want lo and veth0", links)
		}
	})
}

func TestDeleteLink_RemovesPeerAndRepeats(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		must(t, w.host.DeleteLink("veth0"))
		must(t, w.host.DeleteLink("veth0"))
		if _, err := w.pod.Link("eth0"); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("peer after deletion: %v, want ErrNotFound", err)
		}
	})
}

func TestSetLink_ChangesGivenSettingsOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		mac := net.HardwareAddr{0x0a, 0x58, 1, 2, 3, 4}
		must(t, w.pod.SetLink("eth0", netdev.Settings{MTU: 1300, MAC: mac, Alias: "x", State: netdev.Up}))
		must(t, w.pod.SetLink("eth0", netdev.Settings{}))
		got, err := w.pod.Link("eth0")
		must(t, err)
		if got.MTU != 1300 || got.MAC.String() != mac.String() || got.Alias != "x" || !got.Up {
			t.Errorf("link is %+v", got)
		}
		must(t, w.pod.SetLink("eth0", netdev.Settings{State: netdev.Down, NoAlias: true}))
		if got, _ = w.pod.Link("eth0"); got.Up || got.Alias != "" {
			t.Errorf("down and without an alias: %+v", got)
		}
		if err := w.pod.SetLink("eth9", netdev.Settings{State: netdev.Up}); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("absent link: %v, want ErrNotFound", err)
		}
	})
}

func TestAddrs_AreReplacedListedAndDeleted(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.244.1.5/24"), netip.MustParsePrefix("fd00:10:244:2::5/64")
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		for range 2 {
			must(t, w.pod.ReplaceAddr("eth0", v4, netdev.AddrOptions{NoDAD: true}))
			must(t, w.pod.ReplaceAddr("eth0", v6, netdev.AddrOptions{NoDAD: true}))
		}
		up(t, w)
		got, err := w.pod.Addrs("eth0")
		must(t, err)
		slices.SortFunc(got, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		if diff := cmp.Diff([]netip.Prefix{v4, v6}, got, cmpPrefix()); diff != "" {
			t.Errorf("addresses, no link-local among them (-want +got):\n%s", diff)
		}
		link, err := w.pod.Link("eth0")
		must(t, err)
		all, err := w.pod.AllAddrs()
		must(t, err)
		slices.SortFunc(all[link.Index], func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		if !slices.Equal(all[link.Index], got) {
			t.Errorf("of all links, those of eth0 are %v, want %v", all[link.Index], got)
		}
		must(t, w.pod.DeleteAddr("eth0", v4))
		must(t, w.pod.DeleteAddr("eth0", v4))
		must(t, w.pod.DeleteAddr("eth9", v4))
		if got, _ = w.pod.Addrs("eth0"); len(got) != 1 {
			t.Errorf("after deleting %s: %v", v4, got)
		}
	})
}

func TestRoutes_AreReplacedListedAndDeleted(t *testing.T) {
	gw4, gw6 := netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:10:244:2::1")
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		up(t, w)
		must(t, w.pod.ReplaceAddr("eth0", netip.MustParsePrefix("10.244.1.5/24"), netdev.AddrOptions{}))
		must(t, w.pod.ReplaceAddr("eth0", netip.MustParsePrefix("fd00:10:244:2::5/64"), netdev.AddrOptions{NoDAD: true}))
		want := []netdev.Route{
			{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: gw4, Link: "eth0", Table: 254, Protocol: 4},
			{Dest: netip.MustParsePrefix("10.96.0.0/16"), NextHop: gw4, Link: "eth0", Table: 254, Protocol: 4, MTU: 1300},
			{Dest: netip.MustParsePrefix("::/0"), NextHop: gw6, Link: "eth0", Table: 254, Protocol: 4, Metric: 7},
			{Dest: netip.MustParsePrefix("198.18.0.0/15"), NextHop: gw4, Others: []netip.Addr{netip.MustParseAddr("10.244.1.9")}, Link: "eth0", Table: 254, Protocol: 4},
			{Dest: netip.MustParsePrefix("2001:db8::/32"), NextHop: gw6, Others: []netip.Addr{netip.MustParseAddr("fd00:10:244:2::9")}, Link: "eth0", Table: 254, Protocol: 4, Metric: 7},
			{Dest: netip.MustParsePrefix("192.0.2.0/24"), NextHop: netip.MustParseAddr("198.51.100.1"), Link: "eth0", Table: 7, Protocol: 85, OnLink: true},
		}
		for range 2 {
			for _, r := range want {
				must(t, w.pod.ReplaceRoute(r))
			}
		}
		if diff := cmp.Diff(want, routesVia(t, w.pod), sorted(), cmpPrefix(), cmpAddr()); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
		must(t, w.pod.DeleteRoute(want[0]))
		must(t, w.pod.DeleteRoute(want[0]))
		if got := routesVia(t, w.pod); len(got) != len(want)-1 {
			t.Errorf("after deleting the default route: %v", got)
		}
		unreachable := netdev.Route{Dest: netip.MustParsePrefix("192.0.2.0/24"), NextHop: netip.MustParseAddr("203.0.113.1"), Link: "eth0"}
		if err := w.pod.ReplaceRoute(unreachable); err == nil || !strings.Contains(err.Error(), unreachable.String()) {
			t.Errorf("route via an address that is not on the link: %v", err)
		}
	})
}

// routesVia leaves out the kernel's own routes to connected prefixes.
func routesVia(t *testing.T, s space) []netdev.Route {
	t.Helper()
	list, err := s.Routes("eth0")
	must(t, err)
	return slices.DeleteFunc(list, func(r netdev.Route) bool { return !r.NextHop.IsValid() })
}

func TestNS_SetsNeighborAndSysctl(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		addPair(t, w)
		must(t, w.pod.ReplaceNeighbor(netdev.Neighbor{Link: "eth0", Addr: netip.MustParseAddr("10.244.1.1"), MAC: podMAC}))
		must(t, w.pod.Sysctl("net/ipv4/conf/eth0/rp_filter", "2"))
		must(t, w.pod.Sysctl("net/ipv4/conf/eth0/rp_filter", "2"))
	})
}

func TestSysctl_StaysInItsNamespace(t *testing.T) {
	a, b := open(t, netdevtest.NewNS(t)), open(t, netdevtest.NewNS(t))
	must(t, a.Sysctl("net/ipv4/conf/lo/rp_filter", "2"))
	for ns, want := range map[*netdev.NS]string{a: "2", b: "0"} {
		var got []byte
		must(t, netdev.Inside(ns, func() (err error) {
			got, err = os.ReadFile("/proc/sys/net/ipv4/conf/lo/rp_filter")
			return err
		}))
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("rp_filter is %q, want %s", got, want)
		}
	}
	for _, path := range []string{"net/../kernel/hostname", "kernel/hostname"} {
		if err := a.Sysctl(path, "x"); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestReplaceAddr_DeprecatedIsNoSource(t *testing.T) {
	ns := open(t, netdevtest.NewNS(t))
	must(t, ns.SetLink("lo", netdev.Settings{State: netdev.Up}))
	want := netip.MustParsePrefix("fd00::1/64")
	must(t, ns.ReplaceAddr("lo", want, netdev.AddrOptions{NoDAD: true}))
	must(t, ns.ReplaceAddr("lo", netip.MustParsePrefix("fd00::2/64"), netdev.AddrOptions{NoDAD: true, Deprecated: true}))
	err := netdev.Inside(ns, func() error {
		c, err := net.Dial("udp", "[fd00::3]:9") // nearer to ::2
		if err != nil {
			return err
		}
		defer c.Close()
		if got := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(); got != want.Addr() {
			return fmt.Errorf("source is %s, want %s", got, want.Addr())
		}
		return nil
	})
	must(t, err)
}

func TestOpen_RefusesOtherFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, t.TempDir(), "/nonexistent"} {
		if ns, err := netdev.Open(path); err == nil {
			ns.Close()
			t.Errorf("%s was opened as a namespace", path)
		}
	}
}

// TestOwn_IsNamespaceOfProcess: the main thread may be in another namespace for a moment, as any thread that opens a socket there;
// the process's own is still the one that it was.
func TestOwn_IsNamespaceOfProcess(t *testing.T) {
	inode := func(path string) uint64 {
		n, err := netdev.Inode(path)
		must(t, err)
		return n
	}
	t.Cleanup(mainThreadLeaves(t))
	if !netdev.Same("/proc/thread-self/ns/net") || netdev.Same("/proc/self/ns/net") {
		t.Error("the process's namespace is where its main thread works")
	}
	own := open(t, "")
	if got, want := inode(fmt.Sprintf("/proc/self/fd/%d", own.Handle())), inode("/proc/thread-self/ns/net"); got != want {
		t.Errorf("opened namespace %d, and the process's own is %d", got, want)
	}
}

func TestSame_OwnNamespaceOnly(t *testing.T) {
	if !netdev.Same("/proc/thread-self/ns/net") || netdev.Same("/nonexistent") {
		t.Error("the process's own namespace is taken for none")
	}
	if netdev.Same(netdevtest.NewNS(t)) {
		t.Error("another namespace passes for the process's own")
	}
}

func TestLinkLocal_IsMadeFromMAC(t *testing.T) {
	got := netdev.LinkLocal([6]byte{0x0a, 0x58, 0x0a, 0xf4, 1, 5})
	if want := netip.MustParsePrefix("fe80::858:aff:fef4:105/64"); got != want {
		t.Errorf("link-local address %s, want %s", got, want)
	}
}

func TestFake_RemovedNamespaceTakesPeers(t *testing.T) {
	f := netdevtest.NewFake()
	f.AddNS("/pod")
	host, err := f.Open("")
	must(t, err)
	must(t, host.AddVeth(netdev.Veth{Name: "a", Peer: netdev.Peer{Path: "/pod", Name: "b"}}))
	f.RemoveNS("/pod")
	if _, err := host.Link("a"); !errors.Is(err, netdev.ErrNotFound) {
		t.Errorf("peer of a removed namespace's link: %v, want ErrNotFound", err)
	}
}

func cmpPrefix() cmp.Option { return cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }) }
func cmpAddr() cmp.Option   { return cmp.Comparer(func(a, b netip.Addr) bool { return a == b }) }
func sorted() cmp.Option {
	return cmpopts.SortSlices(func(a, b netdev.Route) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
}

func BenchmarkAddDeleteVeth(b *testing.B) {
	host := open(b, netdevtest.NewNS(b))
	pod := netdevtest.NewNS(b)
	for b.Loop() {
		must(b, host.AddVeth(netdev.Veth{Name: "veth0", MTU: 1400, Peer: netdev.Peer{Path: pod, Name: "eth0", MAC: podMAC}}))
		must(b, host.DeleteLink("veth0"))
	}
}
