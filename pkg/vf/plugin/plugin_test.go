package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// claims is a ledger without a disk.
type claims struct {
	mu   sync.Mutex
	of   map[string]ledger.Claim
	held string // a device
}

func (c *claims) Holder(device string) (ledger.Claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, ok := c.of[device]
	return got, ok
}

func (c *claims) Held(device string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if device != c.held {
		return nil
	}
	return fmt.Errorf("%w: %s: it is being removed", ledger.ErrHeld, device)
}

func (c *claims) hold(device string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = device
}

func (c *claims) set(device, resource string) {
	c.put(ledger.Claim{Device: device, Resource: resource})
}

func (c *claims) put(claim ledger.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[claim.Device] = claim
}

func (c *claims) clear(device string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, device)
}

func virtual(pf, index int) Device {
	return Device{
		ID: fmt.Sprintf("0000:%02x:00.%d", pf, index+2), Index: index, Vendor: 0x15b3, Product: 0x101e, Driver: "mlx5_core",
		PF: PF{
			Name: fmt.Sprintf("ens%df0", pf), Address: fmt.Sprintf("0000:%02x:00.0", pf), Eswitch: vf.Switchdev, LinkType: "ether",
		},
		NUMA: pf % 2, RDMA: []string{fmt.Sprintf("mlx5_%d%d", pf, index)}, Representor: fmt.Sprintf("rep%d%d", pf, index),
	}
}

func several(n int) []Device {
	var out []Device
	for i := range n {
		out = append(out, virtual(3, i))
	}
	return out
}

// setup starts a plugin, and ends it with the test.
type setup struct {
	*Plugin
	claims *claims
	stop   func() error
}

func run(t *testing.T, k *kubelet, change func(*Config)) *setup {
	t.Helper()
	c := &claims{of: map[string]ledger.Claim{}}
	s := runWith(t, k, c, change)
	s.claims = c
	return s
}

func runWith(t *testing.T, k *kubelet, c Claims, change func(*Config)) *setup {
	t.Helper()
	s := &setup{}
	cfg := Defaults()
	cfg.Dir, cfg.InfoDir = k.dir, filepath.Join(t.TempDir(), "devinfo", "dp")
	cfg.MinBackoff, cfg.MaxBackoff = 100*time.Millisecond, 200*time.Millisecond
	cfg.RDMATimeout = 200 * time.Millisecond
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Sysfs = netdev.NewSysfs(fstest.MapFS{})
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Plugin, err = New(cfg, c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := s.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func (s *setup) update(t *testing.T, devices []Device) {
	t.Helper()
	if err := s.Update(devices); err != nil {
		t.Fatal(err)
	}
}

func allocate(r *remote, ids ...string) (*api.ContainerAllocateResponse, error) {
	got, err := r.Allocate(context.Background(), &api.AllocateRequest{
		ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	return got.ContainerResponses[0], nil
}

func TestPlugin_RegistersAndFollowsDevices(t *testing.T) {
	k := newKubelet(t)
	s := run(t, k, nil)
	k.start() // after the plugin
	s.update(t, several(2))
	r := k.devices(DefaultResource, 2, 0)
	if !r.options.GetPreferredAllocationAvailable || r.options.PreStartRequired {
		t.Errorf("options %v", r.options)
	}
	want := &api.Device{ID: "0000:03:00.2", Health: "Healthy", Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: 1}}}}
	if diff := cmp.Diff(want, r.devices["0000:03:00.2"], protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ill := several(4)
	ill[0].Problem = "uplink ens3f0 is down"
	s.update(t, ill)
	k.devices(DefaultResource, 3, 1)
	s.update(t, several(4))
	k.devices(DefaultResource, 4, 0)
	s.update(t, nil) // the NIC is gone: the node has none, which it says
	k.devices(DefaultResource, 0, 0)
	if k.count() != 1 {
		t.Errorf("registered %d times", k.count())
	}
	if err := s.stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(k.dir, "ovn*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestPlugin_LongResourceNameIsServed: the path of a socket has 107 bytes, and the name of a
// resource may be longer than that.
func TestPlugin_LongResourceNameIsServed(t *testing.T) {
	long := "example.com/" + strings.Repeat("x", 63)
	k := newKubelet(t)
	s := run(t, k, func(c *Config) { c.Pools = []Pool{{Resource: long, Selectors: []Selector{{}}}} })
	k.start()
	s.update(t, several(1))
	k.devices(long, 1, 0)
	_ = s.stop()
	if left, _ := filepath.Glob(filepath.Join(k.dir, "*@*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPlugin_PoolWithoutDevicesIsNotRegistered(t *testing.T) {
	k := newKubelet(t)
	k.start()
	legacy := virtual(3, 0)
	legacy.PF.Eswitch = vf.Legacy // of no use to OVS
	s := run(t, k, func(c *Config) {
		c.Pools = append(c.Pools, Pool{Resource: "example.com/legacy", Selectors: []Selector{{}}})
	})
	s.update(t, []Device{legacy})
	k.devices("example.com/legacy", 1, 0)
	if ours := sockets(k.dir); k.count() != 1 || len(ours) != 0 {
		t.Errorf("%d registrations; there are %v", k.count(), ours)
	}
}

func TestPlugin_RegistersAfterRestartOfKubelet(t *testing.T) {
	k := newKubelet(t)
	k.start()
	s := run(t, k, nil)
	s.update(t, several(2))
	k.devices(DefaultResource, 2, 0)
	for n := range 3 {
		k.stop()
		s.update(t, several(3+n)) // while the kubelet does not run
		k.start()
		r := k.devices(DefaultResource, 3+n, 0)
		if _, err := allocate(r, "0000:03:00.2"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlugin_RegistersAgainWhenSocketIsRemoved(t *testing.T) {
	k := newKubelet(t)
	k.start()
	s := run(t, k, nil)
	s.update(t, several(1))
	k.devices(DefaultResource, 1, 0)
	before := k.count()
	if err := os.Remove(sockets(k.dir)[0]); err != nil {
		t.Fatal(err)
	}
	k.wait("another registration", func() bool { return k.registers > before })
	if _, err := allocate(k.devices(DefaultResource, 1, 0), "0000:03:00.2"); err != nil {
		t.Error(err)
	}
}

func TestPlugin_RegistersAgainWhenConnectionIsLost(t *testing.T) {
	k := newKubelet(t)
	k.start()
	s := run(t, k, nil)
	s.update(t, several(1))
	r := k.devices(DefaultResource, 1, 0)
	before := k.count()
	_ = r.conn.Close() // it lives, but has lost us
	k.wait("another registration", func() bool { return k.registers > before })
	k.devices(DefaultResource, 1, 0)
}

func TestPlugin_RetriesRefusedRegistration(t *testing.T) {
	k := newKubelet(t)
	k.start()
	k.refuse = errors.New("not now")
	s := run(t, k, nil)
	s.update(t, several(1))
	k.wait("tries", func() bool { return k.registers >= 3 })
	k.mu.Lock()
	k.refuse = nil
	k.mu.Unlock()
	k.devices(DefaultResource, 1, 0)
}

func TestPlugin_WaitsForKilledKubelet(t *testing.T) {
	k := newKubelet(t)
	// The socket of a killed kubelet: no process listens.
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.dir, "kubelet.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	lis.SetUnlinkOnClose(false)
	_ = lis.Close()
	s := run(t, k, nil)
	s.update(t, several(1))
	appears(t, k.dir)
	k.start()
	k.devices(DefaultResource, 1, 0)
}

// sockets are those of the default resource.
func sockets(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "ovn-offload.io_vf@*.sock"))
	return found
}

func appears(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(sockets(dir)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no socket appears in %s", dir)
		}
	}
}

// TestPlugin_LateAnswerOfKubeletIsEnough: the kubelet has the registration, and there is no second one.
func TestPlugin_LateAnswerOfKubeletIsEnough(t *testing.T) {
	k := newKubelet(t)
	k.start()
	k.late = true
	s := run(t, k, func(c *Config) { c.MinBackoff, c.MaxBackoff = time.Second, time.Second })
	s.update(t, several(1))
	k.devices(DefaultResource, 1, 0)
	s.update(t, several(2)) // and with it another look
	k.devices(DefaultResource, 2, 0)
	if n := k.count(); n != 1 {
		t.Errorf("registered %d times", n)
	}
}

// TestPlugin_RegistersAfterRestartOfAgent: after two registrations a kubelet takes our last socket for a connected one.
func TestPlugin_RegistersAfterRestartOfAgent(t *testing.T) {
	k := newKubelet(t)
	k.start()
	s := run(t, k, nil)
	s.update(t, several(1))
	k.devices(DefaultResource, 1, 0)
	k.mu.Lock()
	k.stuck[filepath.Base(sockets(k.dir)[0])] = true
	k.mu.Unlock()
	if err := s.stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	next := run(t, k, nil)
	next.update(t, several(2))
	k.devices(DefaultResource, 2, 0)
	if ours := sockets(k.dir); len(ours) != 1 {
		t.Errorf("sockets %v", ours)
	}
}

func TestPlugin_EndsWhenDirectoryIsGone(t *testing.T) {
	k := newKubelet(t)
	s := run(t, k, nil)
	done := make(chan error, 1)
	dir := filepath.Join(t.TempDir(), "plugins")
	cfg := s.cfg
	cfg.Dir = dir
	p, err := New(cfg, s.claims)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Update(several(1)); err != nil {
		t.Fatal(err)
	}
	go func() { done <- p.Run(t.Context()) }()
	appears(t, dir)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it runs on")
	}
}

func sysfs() netdev.Sysfs {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	return netdev.NewSysfs(fstest.MapFS{
		"class/infiniband_verbs/abi_version":    text("6"),
		"class/infiniband_verbs/uverbs4/ibdev":  text("mlx5_30"),
		"class/infiniband_verbs/uverbs5/ibdev":  text("mlx5_31"),
		"class/infiniband_mad/umad4/ibdev":      text("mlx5_30"),
		"class/infiniband_mad/issm4/ibdev":      text("mlx5_30"),
		"class/infiniband_mad/umad5/ibdev":      text("mlx5_31"),
		"class/misc/rdma_cm/dev":                text("10:58"),
		"kernel/iommu_groups/77/name":           text("vfio-noiommu"),
		"kernel/iommu_groups/76/type":           text("DMA"),
		"class/infiniband_verbs/uverbs40/ibdev": text("mlx5_300"),
	})
}

func TestAllocate_GivesEnvironmentAndDeviceNodes(t *testing.T) {
	k := newKubelet(t)
	k.start()
	vfio, bare, noGroup, noVerbs := virtual(3, 2), virtual(3, 3), virtual(3, 4), virtual(3, 5)
	vfio.Driver, vfio.IOMMUGroup, vfio.RDMA = "mlx5_vfio_pci", "76", nil
	bare.Driver, bare.IOMMUGroup, bare.RDMA = "vfio-pci", "77", nil
	noGroup.Driver = "vfio-pci"
	noVerbs.Driver = "other"
	s := run(t, k, func(c *Config) {
		c.Sysfs = sysfs()
		c.Pools = []Pool{
			{Resource: "example.com/rdma-vf", Selectors: []Selector{{Drivers: []string{"mlx5_core", "other"}, RDMA: true}}},
			{Resource: DefaultResource, Selectors: []Selector{{}}},
		}
	})
	s.update(t, []Device{virtual(3, 0), virtual(3, 1), vfio, bare, noGroup, noVerbs})
	node := func(permissions string, paths ...string) (out []*api.DeviceSpec) {
		for _, p := range paths {
			out = append(out, &api.DeviceSpec{ContainerPath: p, HostPath: p, Permissions: permissions})
		}
		return out
	}
	for _, c := range []struct {
		name, resource string
		ids            []string
		want           *api.ContainerAllocateResponse
	}{
		{"rdma", "example.com/rdma-vf", []string{"0000:03:00.3", "0000:03:00.2"}, &api.ContainerAllocateResponse{
			Envs: map[string]string{
				"PCIDEVICE_EXAMPLE_COM_RDMA-VF": "0000:03:00.3,0000:03:00.2",
				"PCIDEVICE_EXAMPLE_COM_RDMA-VF_INFO": `{"0000:03:00.2":{"generic":{"deviceID":"0000:03:00.2"},` +
					`"rdma":{"rdma_dev":"mlx5_30","uverbs":"/dev/infiniband/uverbs4","umad":"/dev/infiniband/umad4","issm":"/dev/infiniband/issm4","rdma_cm":"/dev/infiniband/rdma_cm"}},` +
					`"0000:03:00.3":{"generic":{"deviceID":"0000:03:00.3"},` +
					`"rdma":{"rdma_dev":"mlx5_31","uverbs":"/dev/infiniband/uverbs5","umad":"/dev/infiniband/umad5","rdma_cm":"/dev/infiniband/rdma_cm"}}}`,
			},
			Devices: node("rw", "/dev/infiniband/issm4", "/dev/infiniband/rdma_cm", "/dev/infiniband/umad4",
				"/dev/infiniband/umad5", "/dev/infiniband/uverbs4", "/dev/infiniband/uverbs5"),
		}},
		{"vfio", DefaultResource, []string{"0000:03:00.4"}, &api.ContainerAllocateResponse{
			Envs: map[string]string{
				"PCIDEVICE_OVN-OFFLOAD_IO_VF": "0000:03:00.4",
				"PCIDEVICE_OVN-OFFLOAD_IO_VF_INFO": `{"0000:03:00.4":{"generic":{"deviceID":"0000:03:00.4"},` +
					`"vfio":{"mount":"/dev/vfio/vfio","dev-mount":"/dev/vfio/76"}}}`,
			},
			Devices: node("mrw", "/dev/vfio/76", "/dev/vfio/vfio"),
		}},
		{"vfio without IOMMU", DefaultResource, []string{"0000:03:00.5"}, &api.ContainerAllocateResponse{
			Envs: map[string]string{
				"PCIDEVICE_OVN-OFFLOAD_IO_VF": "0000:03:00.5",
				"PCIDEVICE_OVN-OFFLOAD_IO_VF_INFO": `{"0000:03:00.5":{"generic":{"deviceID":"0000:03:00.5"},` +
					`"vfio":{"mount":"/dev/vfio/vfio","dev-mount":"/dev/vfio/noiommu-77"}}}`,
			},
			Devices: node("mrw", "/dev/vfio/noiommu-77", "/dev/vfio/vfio"),
		}},
		{"unknown", DefaultResource, []string{"0000:09:00.2"}, nil},
		{"another pool's", DefaultResource, []string{"0000:03:00.2"}, nil},
		{"twice", DefaultResource, []string{"0000:03:00.4", "0000:03:00.4"}, nil},
		{"no group", DefaultResource, []string{"0000:03:00.6"}, nil},
		{"no verbs device", "example.com/rdma-vf", []string{"0000:03:00.7"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := map[string]int{"example.com/rdma-vf": 3, DefaultResource: 3}[c.resource]
			got, err := allocate(k.devices(c.resource, n, 0), c.ids...)
			if (err != nil) != (c.want == nil) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeviceInfo_FilesFollowDevicesOfPools(t *testing.T) {
	k := newKubelet(t)
	k.start()
	s := run(t, k, func(c *Config) {
		c.Pools = []Pool{
			{Resource: "example.com/a", Selectors: []Selector{{PFNames: []string{"ens3f0"}}}},
			{Resource: "example.com/a-b", Selectors: []Selector{{}}},
		}
	})
	s.update(t, []Device{virtual(3, 0), virtual(3, 1), virtual(5, 0)})
	file := func(name string) string { return filepath.Join(s.cfg.InfoDir, name+"-device.json") }
	a0, a1, b0 := file("example.com-a-0000:03:00.2"), file("example.com-a-0000:03:00.3"), file("example.com-a-b-0000:05:00.2")
	r := k.devices("example.com/a", 2, 0)
	for _, id := range []string{"0000:03:00.2", "0000:03:00.3", "0000:03:00.2"} {
		if _, err := allocate(r, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := allocate(k.devices("example.com/a-b", 1, 0), "0000:05:00.2"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(a0)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:00.2","rdma-device":"mlx5_30","pf-pci-address":"0000:03:00.0","representor-device":"rep30"}}`
	if string(raw) != want {
		t.Errorf("got %s\nwant %s", raw, want)
	}
	if info, err := os.Stat(a0); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
	there := func() []string {
		found, err := fs.Glob(os.DirFS(s.cfg.InfoDir), "*")
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = filepath.Join(s.cfg.InfoDir, found[i])
		}
		return found
	}
	foreign := file("example.com-c-0000:03:00.2")
	if err := os.WriteFile(foreign, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	s.claims.set("0000:03:00.3", "example.com/a")
	s.update(t, []Device{virtual(5, 0)}) // the NIC of the first pool is gone, and a pod still has one of its VFs
	if diff := cmp.Diff([]string{a1, b0, foreign}, there()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.claims.clear("0000:03:00.3")
	s.update(t, nil)
	if diff := cmp.Diff([]string{foreign}, there()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAllocate_HeldDevice: a device that is being removed is refused, others are not.
func TestAllocate_HeldDevice(t *testing.T) {
	k := newKubelet(t)
	k.start()
	s := run(t, k, nil)
	s.update(t, several(2))
	r := k.devices(DefaultResource, 2, 0)
	s.claims.hold("0000:03:00.2")
	if _, err := allocate(r, "0000:03:00.2"); err == nil || !strings.Contains(err.Error(), "cannot be claimed now: 0000:03:00.2: it is being removed") {
		t.Errorf("while it is held: %v", err)
	}
	if _, err := allocate(r, "0000:03:00.3"); err != nil {
		t.Errorf("another device: %v", err)
	}
	s.claims.hold("")
	if _, err := allocate(r, "0000:03:00.2"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestAllocate_PodsNeverShareDevices plays the kubelet's part with pods that come and
// go, DELs that come late, two pools and a plugin that ends and starts, against
// a real ledger: a device is never two pods'.
func TestAllocate_PodsNeverShareDevices(t *testing.T) {
	k := newKubelet(t)
	k.start()
	book, err := ledger.Open(t.TempDir(), "boot")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	resources := []string{"example.com/a", "example.com/b"}
	s := runWith(t, k, book, func(c *Config) {
		c.Pools = []Pool{
			{Resource: resources[0], Selectors: []Selector{{PFNames: []string{"ens3f0#0-3"}}}},
			{Resource: resources[1], Selectors: []Selector{{}}},
		}
	})
	s.update(t, several(6))
	remotes := map[string]*remote{resources[0]: k.devices(resources[0], 4, 0), resources[1]: k.devices(resources[1], 2, 0)}
	r := rand.New(rand.NewPCG(1, 2))
	owner := map[string]ledger.Claim{}   // by device: pods with network
	leaving := map[string]ledger.Claim{} // by device: gone for the kubelet, not yet DELeted
	granted, waited := 0, 0
	for n := range 400 {
		resource := resources[r.IntN(2)]
		one := remotes[resource]
		var available []string
		for _, id := range slices.Sorted(maps.Keys(one.devices)) {
			if _, taken := owner[id]; !taken {
				available = append(available, id)
			}
		}
		switch {
		case r.IntN(3) > 0 && len(available) > 0: // a pod comes
			got, err := one.GetPreferredAllocation(t.Context(), &api.PreferredAllocationRequest{ContainerRequests: []*api.ContainerPreferredAllocationRequest{
				{AvailableDeviceIDs: available, AllocationSize: 1}}})
			if err != nil {
				t.Fatal(err)
			}
			ids := got.ContainerResponses[0].DeviceIDs
			if len(ids) != 1 || !slices.Contains(available, ids[0]) {
				t.Fatalf("of %v: %v", available, ids)
			}
			if _, err := allocate(one, ids...); err != nil {
				t.Fatal(err)
			}
			c := ledger.Claim{Resource: resource, UID: "u", Sandbox: fmt.Sprint("sandbox-", n), Interface: "eth0"}
			c.Pod.Name = fmt.Sprint("pod-", n)
			had, busy := leaving[ids[0]]
			c, err = book.Take(ids, c)
			if busy {
				if !errors.Is(err, ledger.ErrBusy) {
					t.Fatalf("%s is still %s's and was given to %s: %v", ids[0], had.Pod, c.Pod, err)
				}
				waited++ // the kubelet would repeat the ADD; here the pod goes
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			granted++
			owner[c.Device] = c
		case r.IntN(2) == 0 && len(owner) > 0: // a pod goes; its DEL comes later
			id := slices.Sorted(maps.Keys(owner))[r.IntN(len(owner))]
			leaving[id] = owner[id]
			delete(owner, id)
		case len(leaving) > 0: // a DEL
			id := slices.Sorted(maps.Keys(leaving))[r.IntN(len(leaving))]
			if err := book.Release(id, leaving[id].Sandbox); err != nil {
				t.Fatal(err)
			}
			delete(leaving, id)
		}
	}
	if granted < 50 || waited < 5 {
		t.Errorf("%d granted, %d waited: too little was tested", granted, waited)
	}
}

func TestPrefer_KeepsToOneNUMANode(t *testing.T) {
	// NUMA 1 has 3 free, NUMA 0 has 2, and the first of NUMA 0 is busy.
	devices := []Device{virtual(4, 0), virtual(3, 0), virtual(5, 0), virtual(3, 1), virtual(4, 1), virtual(4, 2)}
	c := &claims{of: map[string]ledger.Claim{}}
	c.set("0000:04:00.2", "")
	for _, test := range []struct {
		name string
		must []string
		size int
		want []string
	}{
		{"one: where there is least", nil, 1, []string{"0000:04:00.3"}},
		{"two: all of the small node", nil, 2, []string{"0000:04:00.3", "0000:04:00.4"}},
		{"three: one node", nil, 3, []string{"0000:03:00.2", "0000:03:00.3", "0000:05:00.2"}},
		{"four: the big node first", nil, 4, []string{"0000:03:00.2", "0000:03:00.3", "0000:05:00.2", "0000:04:00.3"}},
		{"near what must be", []string{"0000:05:00.2"}, 2, []string{"0000:05:00.2", "0000:03:00.2"}},
		{"busy ones last", []string{"0000:04:00.3"}, 6, []string{
			"0000:04:00.3", "0000:04:00.4", "0000:03:00.2", "0000:03:00.3", "0000:05:00.2", "0000:04:00.2"}},
		{"more than there are", nil, 9, []string{
			"0000:03:00.2", "0000:03:00.3", "0000:05:00.2", "0000:04:00.3", "0000:04:00.4", "0000:04:00.2"}},
		{"all that must be", []string{"0000:05:00.2"}, 1, []string{"0000:05:00.2"}},
	} {
		if diff := cmp.Diff(test.want, prefer(devices, test.must, test.size, c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestDeviceInfo_IsTheDocumentedJSON(t *testing.T) {
	raw, err := json.Marshal(deviceInfo{Type: "pci", Version: infoVersion, PCI: pciInfo{Address: "0000:03:00.2"}})
	if err != nil || string(raw) != `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:00.2"}}` {
		t.Errorf("%s: %v", raw, err)
	}
}
