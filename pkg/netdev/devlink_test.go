package netdev_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

func openDevices(t *testing.T, ns *netdev.NS) *netdev.Devices {
	t.Helper()
	d, err := netdev.OpenDevices(ns)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// A link that hardware could have is reported; a veth pair is not.
func TestDevices_WatchReportsNoVeth(t *testing.T) {
	ns := open(t, netdevtest.NewNS(t))
	ctx, cancel := context.WithCancel(t.Context())
	events, err := openDevices(t, ns).Watch(ctx)
	must(t, err)
	must(t, ns.AddVeth(netdev.Veth{Name: "veth0", Peer: netdev.Peer{Name: "veth1"}}))
	must(t, ns.SetLink("veth0", netdev.Settings{State: netdev.Up}))
	must(t, ns.SetLink("lo", netdev.Settings{State: netdev.Up}))
	deadline := time.After(10 * time.Second)
	select {
	case e := <-events:
		if e != (netdev.DeviceEvent{Source: "link", What: "lo", Index: 1}) {
			t.Errorf("first event %+v, want that of lo", e)
		}
	case <-deadline:
		t.Fatal("no event within 10s")
	}
	must(t, ns.ReplaceAddr("lo", netip.MustParsePrefix("10.1.2.3/32"), netdev.AddrOptions{}))
	for e := range events {
		if e == (netdev.DeviceEvent{Source: "address"}) {
			break
		}
	}
	cancel()
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("the channel is open 10s after its context ended")
		}
	}
}

func TestUevent_GivesPathOfDevice(t *testing.T) {
	pf := "/devices/pci0000:00/0000:03:00.0"
	for raw, want := range map[string]string{
		"change@" + pf + "\x00ACTION=change\x00SUBSYSTEM=pci\x00SEQNUM=7\x00": pf[1:],
		"add@" + pf + "/net/eth0\x00SUBSYSTEM=net\x00":                        pf[1:] + "/net/eth0",
		"move@" + pf + "/infiniband/mlx5_0\x00SUBSYSTEM=infiniband\x00":       pf[1:] + "/infiniband/mlx5_0",
		"bind@" + pf + "/mlx5_core.sf.2\x00SUBSYSTEM=auxiliary\x00":           pf[1:] + "/mlx5_core.sf.2",
		"add@/devices/virtual/net/veth0\x00SUBSYSTEM=net\x00":                 "",
		"add@" + pf + "/block/sda\x00SUBSYSTEM=block\x00":                     "",
		"libudev\x00\xfe\xed\xca\xfe":                                         "",
		"":                                                                    "",
	} {
		if e, _ := netdev.Uevents([]byte(raw)); len(e) > 0 != (want != "") || want != "" && e[0].What != want {
			t.Errorf("%q: %+v", raw, e)
		}
	}
}

// On a disk and in memory; what is not there is empty, what leads away is not
// followed.
func TestSysfs_DiskAndMemoryAgree(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(root+"/devices/nic", 0o755))
	must(t, os.MkdirAll(root+"/class/net", 0o755))
	must(t, os.WriteFile(root+"/devices/nic/mtu", []byte("1500\n"), 0o600))
	memory := fstest.MapFS{"devices/nic/mtu": {Data: []byte("1500\n")}}
	for name, target := range map[string]string{"class/net/eth0": "../../devices/nic", "class/net/out": "../../../etc", "class/net/abs": "/etc"} {
		must(t, os.Symlink(target, root+"/"+name))
		memory[name] = &fstest.MapFile{Data: []byte(target), Mode: os.ModeSymlink}
	}
	for where, s := range map[string]netdev.Sysfs{"disk": netdev.OpenSysfs(root), "memory": netdev.NewSysfs(memory)} {
		if names, err := s.Names("class/net"); err != nil || strings.Join(names, " ") != "abs eth0 out" {
			t.Errorf("%s: names %q, %v", where, names, err)
		}
		if names, err := s.Names("class/infiniband"); err != nil || names != nil {
			t.Errorf("%s: names of an absent directory %q, %v", where, names, err)
		}
		if target, err := s.Target("class/net/eth0"); err != nil || target != "devices/nic" {
			t.Errorf("%s: target %q, %v", where, target, err)
		}
		for _, link := range []string{"class/net/out", "class/net/abs"} {
			if target, err := s.Target(link); err == nil {
				t.Errorf("%s: %s was followed to %q", where, link, target)
			}
		}
		for attr, want := range map[string]string{"devices/nic/mtu": "1500", "class/net/eth0/mtu": "1500", "devices/nic/speed": ""} {
			if got, err := s.Attr(attr); err != nil || got != want {
				t.Errorf("%s: %s is %q, %v", where, attr, got, err)
			}
		}
		for _, noLink := range []string{"devices/nic/mtu", "devices/nic/driver"} {
			if target, err := s.Target(noLink); err != nil || target != "" {
				t.Errorf("%s: %s leads to %q, %v", where, noLink, target, err)
			}
		}
	}
}

func TestAbsent_UnsupportedAttributeOnly(t *testing.T) {
	for _, err := range []error{unix.EIO, unix.EACCES, nil} {
		if netdev.Absent(err) {
			t.Errorf("%v passes for absent", err)
		}
	}
	if !netdev.Absent(&os.PathError{Err: unix.EOPNOTSUPP}) {
		t.Error("an attribute that a device does not support is an error")
	}
}
