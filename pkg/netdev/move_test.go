package netdev_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

type mover interface {
	MoveLink(m netdev.Move) error
	SetAltNames(index int, names []string) error
}

func TestMoveLink_IntoPodAndBack(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		must(t, w.host.AddVeth(netdev.Veth{Name: "vf0", MTU: 1500, Peer: netdev.Peer{Name: "rep0"}}))
		must(t, w.host.SetLink("vf0", netdev.Settings{State: netdev.Up}))
		was, err := w.host.Link("vf0")
		must(t, err)
		must(t, w.host.SetAltNames(was.Index, []string{"eth0", "enp3s0f0v0"}))
		mac := []byte{0x0a, 0x58, 0x0a, 0xf4, 1, 5}
		there := netdev.Move{Index: was.Index, To: w.podPath, Name: "eth0", MAC: mac, MTU: 1400}
		if err := w.host.MoveLink(there); !errors.Is(err, netdev.ErrExists) {
			t.Errorf("move to a name that it has as a further one: %v", err)
		}
		half, err := w.pod.Link("vf0")
		must(t, err)
		must(t, w.pod.SetAltNames(half.Index, nil))
		must(t, w.pod.MoveLink(netdev.Move{Index: half.Index, To: w.hostPath, Name: "vf0"}))
		must(t, w.host.MoveLink(there))
		if _, err := w.host.Link("vf0"); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("vf0 is still in the host's namespace: %v", err)
		}
		got, err := w.pod.Link("eth0")
		must(t, err)
		if got.MAC.String() != "0a:58:0a:f4:01:05" || got.MTU != 1400 || got.Up || len(got.AltNames) != 0 {
			t.Errorf("in the pod it is %+v", got)
		}
		back := netdev.Move{Index: got.Index, To: w.hostPath, Name: "rep0", MAC: was.MAC, MTU: was.MTU}
		if err := w.pod.MoveLink(back); !errors.Is(err, netdev.ErrExists) {
			t.Errorf("move to a taken name: %v", err)
		}
		half, err = w.host.Link("eth0")
		must(t, err)
		back.Index = half.Index
		must(t, w.host.MoveLink(netdev.Move{Index: half.Index, To: w.hostPath, Name: "vf0", MAC: was.MAC, MTU: was.MTU}))
		must(t, w.host.MoveLink(netdev.Move{Index: half.Index, To: w.podPath, Name: "vf0"}))
		must(t, w.host.AddVeth(netdev.Veth{Name: "vf0", Peer: netdev.Peer{Name: "x"}}))
		moved, err := w.pod.Link("vf0")
		must(t, err)
		// The name that it has is taken, the one that it gets is not.
		must(t, w.pod.MoveLink(netdev.Move{Index: moved.Index, To: w.hostPath, Name: "vf2"}))
		must(t, w.host.DeleteLink("vf0"))
		moved, err = w.host.Link("vf2")
		must(t, err)
		must(t, w.host.MoveLink(netdev.Move{Index: moved.Index, To: w.hostPath, Name: "vf0"}))
		detached, err := w.host.Link("vf0")
		must(t, err)
		must(t, w.host.MoveLink(netdev.Move{Index: detached.Index, To: w.hostPath, Name: "vf1"})) // a plain change of name
		must(t, w.host.SetAltNames(detached.Index, []string{"enp3s0f0v0"}))
		detached, err = w.host.Link("vf1")
		must(t, err)
		if detached.MAC.String() != was.MAC.String() || detached.MTU != 1500 || !slices.Equal(detached.AltNames, []string{"enp3s0f0v0"}) {
			t.Errorf("after its return it is %+v, not as %+v", detached, was)
		}
		if err := w.host.MoveLink(netdev.Move{Index: 4711, To: w.podPath, Name: "x"}); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("move of nothing: %v", err)
		}
	})
}

func TestInode_ChangesWithNamespace(t *testing.T) {
	f := netdevtest.NewFake()
	f.AddNS("/pod")
	was, err := f.Inode("/pod")
	must(t, err)
	f.RemoveNS("/pod")
	if _, err := f.Inode("/pod"); err == nil {
		t.Error("a namespace that is gone has an inode")
	}
	f.AddNS("/pod")
	if is, err := f.Inode("/pod"); err != nil || is == was {
		t.Errorf("the next namespace has inode %d, %v; the last one had %d", is, err, was)
	}
	if _, err := netdev.Inode("/proc/self/ns/net"); err != nil {
		t.Error(err)
	}
}

// TestFake_DeviceOutlivesItsNamespace: what is on a bus outlives the namespace that it was in.
func TestFake_DeviceOutlivesItsNamespace(t *testing.T) {
	f := netdevtest.NewFake()
	f.AddNS("/pod")
	f.AddLink("/pod", netdev.Link{Name: "eth0", Parent: "0000:03:00.2"})
	f.AddLink("", netdev.Link{Name: "eth0"})
	f.RemoveNS("/pod")
	host, err := f.Open("")
	must(t, err)
	links, err := host.Links()
	must(t, err)
	if len(links) != 2 || links[1].Name != "dev2" && links[1].Name != "dev3" || links[1].Parent == "" {
		t.Errorf("links are %+v", links)
	}
}

func TestPCIDevices_HaveNetdevsAndRDMADevices(t *testing.T) {
	tree := netdev.NewSysfs(fstest.MapFS{
		"bus/pci/devices/0000:03:00.2":                         {Data: []byte("../../../devices/pci0000:00/0000:03:00.2"), Mode: fs.ModeSymlink},
		"bus/pci/devices/0000:03:00.3":                         {Data: []byte("../../../devices/pci0000:00/0000:03:00.3"), Mode: fs.ModeSymlink},
		"devices/pci0000:00/0000:03:00.2/net/ens1f0v0/address": {Data: []byte("02:00:00:00:00:01")},
		"devices/pci0000:00/0000:03:00.2/infiniband/mlx5_2/fw": {Data: []byte("28.39")},
		"devices/pci0000:00/0000:03:00.3/vendor":               {Data: []byte("0x15b3")},
	})
	for address, want := range map[string]struct {
		present     bool
		names, rdma []string
	}{
		"0000:03:00.2": {true, []string{"ens1f0v0"}, []string{"mlx5_2"}},
		"0000:03:00.3": {true, nil, nil}, // in a pod, or with vfio
		"0000:03:00.4": {false, nil, nil},
	} {
		present, names, err := netdev.PCINetdevs(tree, address)
		if err != nil || present != want.present || !slices.Equal(names, want.names) {
			t.Errorf("%s: %t, %v, %v", address, present, names, err)
		}
		if rdma, err := tree.RDMADevices(address); err != nil || !slices.Equal(rdma, want.rdma) {
			t.Errorf("%s: RDMA devices %v, %v", address, rdma, err)
		}
	}
}
