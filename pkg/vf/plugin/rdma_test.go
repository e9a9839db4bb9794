package plugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// moving is a tree of devices that a kernel changes: between two namespaces an RDMA
// device has no nodes.
type moving struct {
	fstest.MapFS
	away atomic.Int32 // this often
}

func (m *moving) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "class/infiniband_verbs" && m.away.Add(-1) >= 0 {
		return nil, fs.ErrNotExist
	}
	return m.MapFS.ReadDir(name)
}

// TestAllocate_WaitsForRDMADevice: in the exclusive mode of the RDMA subsystem, the device for the next pod may still be
// in the last pod's namespace, or may just be returning. The kubelet would not try a refused pod again.
func TestAllocate_WaitsForRDMADevice(t *testing.T) {
	k := newKubelet(t)
	k.start()
	tree := &moving{MapFS: fstest.MapFS{
		"class/infiniband_verbs/uverbs4/ibdev":             {Data: []byte("mlx5_30\n")},
		"bus/pci/devices/0000:03:00.2":                     {Data: []byte("../../../devices/pci0000:00/0000:03:00.2"), Mode: fs.ModeSymlink},
		"devices/pci0000:00/0000:03:00.2/net/ens3f0v0/mtu": {Data: []byte("1500")},
	}}
	const pool = "example.com/rdma"
	s := run(t, k, func(c *Config) {
		c.Sysfs = netdev.NewSysfs(tree)
		c.Pools = []Pool{{Resource: pool, Selectors: []Selector{{RDMA: true}}}}
	})
	away := virtual(3, 0)
	away.RDMA = nil
	s.claims.set(away.ID, pool)
	s.update(t, []Device{away})
	r := k.devices(pool, 1, 0)
	if _, err := allocate(r, away.ID); err == nil || !strings.Contains(err.Error(), "has no RDMA device, neither on the node nor in a pod") {
		t.Errorf("where it is nowhere: %v", err)
	}
	want := func(when string) {
		t.Helper()
		got, err := allocate(r, away.ID)
		if err != nil || len(got.Devices) != 1 || got.Devices[0].HostPath != "/dev/infiniband/uverbs4" {
			t.Errorf("%s: %v, %v", when, got, err)
		}
		raw, err := os.ReadFile(filepath.Join(s.cfg.InfoDir, "example.com-rdma-"+away.ID+"-device.json"))
		if err != nil || !strings.Contains(string(raw), `"rdma-device":"mlx5_30"`) {
			t.Errorf("%s, device information is %s, %v", when, raw, err)
		}
	}
	s.claims.put(ledger.Claim{Device: away.ID, Resource: pool, Original: &ledger.Original{RDMA: []string{"mlx5_30"}}})
	want("before the last pod's DEL")
	tree.away.Store(2)
	want("while it moves")
	if tree.away.Load() >= 0 {
		t.Error("it has not moved")
	}
	s.claims.clear(away.ID)
	tree.MapFS["devices/pci0000:00/0000:03:00.2/infiniband/mlx5_30/fw"] = &fstest.MapFile{}
	want("after it")

	began := time.Now()
	tree.away.Store(1 << 20)
	if _, err := allocate(r, away.ID); err == nil || !strings.Contains(err.Error(), "is the module ib_uverbs loaded?") {
		t.Errorf("without nodes: %v", err)
	}
	if took := time.Since(began); took < s.cfg.RDMATimeout {
		t.Errorf("given up after %s", took)
	}
}
