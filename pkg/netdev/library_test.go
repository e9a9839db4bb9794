package netdev_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/Mellanox/rdmamap"
	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// TestLibrary_RealAndFakeAgree puts one tree on a disk for the libraries and gives it to
// the fake.
func TestLibrary_RealAndFakeAgree(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"devices/pci0000:00/0000:03:00.0/mlx5_core.sf.2/sfnum":     "88\n",
		"devices/pci0000:00/0000:03:00.2/infiniband/mlx5_3/fw_ver": "1\n",
		"devices/pci0000:00/0000:03:00.2/infiniband/mlx5_2/fw_ver": "1\n",
		"class/infiniband_verbs/abi_version":                       "6\n",
		"class/infiniband_verbs/uverbs2/ibdev":                     "mlx5_2\n",
		"class/infiniband_verbs/uverbs20/ibdev":                    "mlx5_20\n",
		"class/infiniband_mad/umad2/ibdev":                         "mlx5_2\n",
		"class/infiniband_mad/issm2/ibdev":                         "mlx5_2\n",
	} {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	for link, to := range map[string]string{
		"bus/pci/devices/0000:03:00.0":           "../../../devices/pci0000:00/0000:03:00.0",
		"bus/pci/devices/0000:03:00.2":           "../../../devices/pci0000:00/0000:03:00.2",
		"bus/auxiliary/devices/mlx5_core.sf.2":   "../../../devices/pci0000:00/0000:03:00.0/mlx5_core.sf.2",
		"devices/pci0000:00/0000:03:00.2/physfn": "../0000:03:00.0",
	} {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(link)), 0o700))
		must(t, os.Symlink(to, filepath.Join(root, link)))
	}
	verbs, mad := rdmamap.RdmaUverbsDir, rdmamap.RdmaUmadDir
	rdmamap.RdmaUverbsDir, rdmamap.RdmaUmadDir = root+"/class/infiniband_verbs", root+"/class/infiniband_mad"
	defer func() { rdmamap.RdmaUverbsDir, rdmamap.RdmaUmadDir = verbs, mad }()

	type answers struct {
		SF, NoSF       int
		PF, NoPF, None string
		RDMA           []string
		NoRDMA, Nodes  []string
		NoNodes        []string
	}
	ask := func(l netdev.Library) (a answers) {
		var err error
		a.SF, err = l.SFNumber("mlx5_core.sf.2")
		must(t, err)
		if a.NoSF, err = l.SFNumber("mlx5_core.sf.3"); err == nil {
			t.Errorf("%T: an SF that is absent has a number", l)
		}
		a.PF, a.NoPF, a.None = l.PF("0000:03:00.2"), l.PF("0000:03:00.0"), l.PF("0000:03:00.9")
		a.RDMA, err = l.RDMADevices("0000:03:00.2")
		must(t, err)
		a.NoRDMA, err = l.RDMADevices("0000:03:00.0")
		must(t, err)
		a.Nodes, err = l.RDMANodes("mlx5_2")
		must(t, err)
		a.NoNodes, err = l.RDMANodes("mlx5_9")
		must(t, err)
		return a
	}
	real := netdev.OpenSysfs(root)
	want := answers{
		SF: 88, NoSF: -1, PF: "0000:03:00.0", RDMA: []string{"mlx5_2", "mlx5_3"},
		Nodes: []string{"/dev/infiniband/issm2", "/dev/infiniband/umad2", "/dev/infiniband/uverbs2"},
	}
	for _, l := range []netdev.Library{real.Library, netdev.FakeLibrary(real)} {
		if diff := cmp.Diff(want, ask(l)); diff != "" {
			t.Errorf("%T (-want +got):\n%s", l, diff)
		}
	}
	rdmamap.RdmaUverbsDir = root + "/class/infiniband_verbs/abi_version" // cannot be listed
	if nodes, err := real.RDMANodes("mlx5_2"); err == nil {
		t.Errorf("nodes %v without an error", nodes)
	}
}
