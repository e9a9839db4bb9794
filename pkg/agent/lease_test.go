package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// leased gives a namespace a NIC eth0 with an address: for an hour, or "0s" for ever.
func leased(t *testing.T, path, address, left string) {
	t.Helper()
	handle := netdevtest.Handle(t, path)
	link, err := handle.LinkByName("eth0")
	if err != nil {
		link = &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1500}, PeerName: "cable"}
		if err := handle.LinkAdd(link); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cable", "eth0"} {
			if link, err = handle.LinkByName(name); err != nil {
				t.Fatal(err)
			}
			if err := handle.LinkSetUp(link); err != nil {
				t.Fatal(err)
			}
		}
	}
	former, err := handle.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range former {
		if err := handle.AddrDel(link, &former[i]); err != nil {
			t.Fatal(err)
		}
	}
	if address == "" {
		return
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	lifetime, err := time.ParseDuration(left)
	if err != nil {
		t.Fatal(err)
	}
	addr.ValidLft, addr.PreferedLft = int(lifetime.Seconds()), int(lifetime.Seconds())
	if err := handle.AddrAdd(link, addr); err != nil {
		t.Fatal(err)
	}
	via := netip.MustParsePrefix(address).Masked().Addr().Next()
	if err := handle.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: via.AsSlice()}); err != nil {
		t.Fatal(err)
	}
}

// TestLease_IsRecordedAgainAfterBoot: after a boot the lease is that of the host's client. The record of the former boot
// counts while the NIC has no address.
func TestLease_IsRecordedAgainAfterBoot(t *testing.T) {
	const checkpoint = `{"interface":"eth0","bridge":"breth0","mac":"02:00:00:00:00:01","mtu":1500,"addresses":["192.0.2.10/24"],"routes":[],"verified":true,"index":5,"boot":"first"}`
	for name, tt := range map[string]struct{ boot, address, left, want string }{
		"the same boot":             {"first", "192.0.2.99/24", "1h", "192.0.2.10/24"},
		"another lease":             {"second", "192.0.2.99/24", "1h", "192.0.2.99/24"},
		"a static address":          {"second", "192.0.2.99/24", "0s", ""},
		"the server did not answer": {"second", "", "", "192.0.2.10/24"},
	} {
		t.Run(name, func(t *testing.T) {
			path := netdevtest.NewNS(t)
			leased(t, path, "192.0.2.10/24", "1h")
			ns, err := netdev.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ns.Close() })
			cfg := Defaults()
			cfg.Node.Checkpoint, cfg.Node.Boot, cfg.Install.Run = filepath.Join(t.TempDir(), "node.json"), "first", t.TempDir()
			cfg.Node.Network.Subnets, err = ipam.ParseClusterSubnets("10.244.0.0/16/24")
			if err != nil {
				t.Fatal(err)
			}
			o := &ovs{parts: &parts{Process: &Process{Config: cfg}, machine: &machine{netns: ns}}}
			if err := o.captureLease(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(cfg.Node.Checkpoint, []byte(checkpoint), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Node.Boot = tt.boot
			leased(t, path, tt.address, tt.left)
			if err := o.captureLease(); err != nil {
				t.Fatal(err)
			}
			if got := recordedLease(cfg); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("the record is %q, want that of %q", got, tt.want)
			}
		})
	}
}

func recordedLease(cfg Config) string {
	text, _ := os.ReadFile(leaseFile(cfg))
	return string(text)
}

// TestDPU_RecordsLeaseOfUplink: a DPU whose uplink has its address by DHCP loses the host's client with the takeover, as any
// node does.
func TestDPU_RecordsLeaseOfUplink(t *testing.T) {
	server := ovsdbtest.Start(t, vswitch.Definition)
	server.Transact(`{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",[["system-id","chassis"]]]}}`)
	path := netdevtest.NewNS(t)
	leased(t, path, "192.0.2.10/24", "1h")
	cfg := withoutAPI(t, server.Endpoint())
	cfg.Mode, cfg.Serves.Host, cfg.Logger, cfg.Node.Remote = ModeDPU, "n", slog.New(slog.DiscardHandler), "tcp:127.0.0.1:2"
	cfg.Install.Run, cfg.Metrics.Flows.Socket = t.TempDir(), ""
	p, err := NewProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var a Agent
	if err := netdevtest.Inside(path, func() (err error) { a, err = DPU(ctx, p); return err }); err != nil {
		t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.(*dpuNode).start(ctx, group) })
	for deadline := time.Now().Add(10 * time.Second); recordedLease(cfg) == "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	_ = group.Wait()
	if got := recordedLease(cfg); !strings.Contains(got, "192.0.2.10/24") {
		t.Errorf("the record is %q", got)
	}
}
