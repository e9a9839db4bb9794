package machine

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

const (
	// wiring is the namespace in a VM that has the far ends of its NICs' cables
	// and the cards that lead out: the node itself sees its NICs only.
	wiring     = "/run/lab/wiring"
	guestLink  = "eth0"
	wiringMTU  = 1500
	cableOfNIC = "swsimw0"
)

// guest is the init of a machine inside its VM, after vminit.
func guest(spec Spec) error {
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"sharing the mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") }},
		{"mounting containerd's directory", containerdStore},
		{"setting the host name", func() error { return unix.Sethostname([]byte(spec.Name)) }},
		{"setting the kernel up", kernelSettings},
		{"laying the cables", func() error { return cables(true) }},
		{"setting the network up", func() error { return uplink(spec.VM) }},
		{"making directories", func() error { return os.MkdirAll("/run/netns", 0o755) }},
	} {
		if err := part.do(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if err := os.Setenv("PATH", Path); err != nil { // where services are looked for
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s := newSupervisor("/var/log")
	s.want(Service{Name: "commands", Args: []string{program, "machine", "commands"}})
	return s.run(servicesFile)
}

// containerdStore puts memory over the images that came with the machine. The
// snapshots are beside that overlay, because containers' overlays cannot be on one.
func containerdStore() error {
	const memory = "/run/lab/containerd"
	snapshots := filepath.Join(memory, "snapshots")
	if err := os.MkdirAll(memory, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("containerd", memory, "tmpfs", 0, "size=60%"); err != nil {
		return err
	}
	for _, dir := range []string{snapshots, memory + "/upper", memory + "/work", containerdDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%[2]s/upper,workdir=%[2]s/work", storeShare, memory)
	if err := unix.Mount("containerd", containerdDir, "overlay", 0, layers); err != nil {
		return err
	}
	entries, err := os.ReadDir(SnapshotsShare)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		to := filepath.Join(snapshots, entry.Name())
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		if err := unix.Mount(filepath.Join(SnapshotsShare, entry.Name()), to, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(snapshotsDir, 0o700); err != nil {
		return err
	}
	return unix.Mount(snapshots, snapshotsDir, "", unix.MS_BIND|unix.MS_REC, "")
}

// cables moves the card for commands into a namespace of its own. With simulated NICs the far end of the first one's cable
// joins the card that leads to the fabric, there.
func cables(simulated bool) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	far, err := newNamespace(wiring)
	if err != nil {
		return err
	}
	defer func() { _ = far.Close() }()
	handle, err := netlink.NewHandleAt(far, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = handle.Close() }()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "cable", wiringMTU
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := handle.LinkAdd(bridge); err != nil {
		return err
	}
	for _, link := range links {
		attrs := link.Attrs()
		switch mac := attrs.HardwareAddr.String(); {
		case mac == vm.ControlMAC:
			network := &net.IPNet{IP: net.ParseIP(vm.ControlAddress), Mask: net.CIDRMask(24, 32)}
			err = lay(handle, far, link, func(l netlink.Link) error { return handle.AddrAdd(l, &netlink.Addr{IPNet: network}) })
		case simulated && (mac == vm.CableMAC(0) || attrs.Name == cableOfNIC):
			err = lay(handle, far, link, func(l netlink.Link) error { return handle.LinkSetMaster(l, bridge) })
		}
		if err != nil {
			return fmt.Errorf("%s: %w", attrs.Name, err)
		}
	}
	return handle.LinkSetUp(bridge)
}

// lay moves a link to the far namespace, under a name that no NIC there has, and connects it.
func lay(handle *netlink.Handle, far netns.NsHandle, link netlink.Link, connect func(netlink.Link) error) error {
	name := fmt.Sprintf("far%d", link.Attrs().Index)
	if err := netlink.LinkSetName(link, name); err != nil {
		return err
	}
	if err := netlink.LinkSetNsFd(link, int(far)); err != nil {
		return err
	}
	moved, err := handle.LinkByName(name)
	if err != nil {
		return err
	}
	if err := connect(moved); err != nil {
		return err
	}
	return handle.LinkSetUp(moved)
}

// newNamespace makes a network namespace that lives as a file.
func newNamespace(path string) (netns.NsHandle, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return -1, err
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return -1, err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and the thread ends with this
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	}()
	if err := <-done; err != nil {
		return -1, err
	}
	return netns.GetFromPath(path)
}

// uplink gives the first NIC the machine's addresses and the way out.
func uplink(v *VM) error {
	names, err := filepath.Glob("/sys/bus/pci/drivers/swsim/0000:01:00.0/net/*")
	if err != nil {
		return err
	}
	var link netlink.Link
	for _, path := range names { // the cable's end has gone, representors have another phys_port_name
		port, err := os.ReadFile(path + "/phys_port_name")
		if err == nil && string(port) == "p0\n" {
			link, err = netlink.LinkByName(filepath.Base(path))
		}
		if err != nil {
			return err
		}
	}
	if link == nil {
		return fmt.Errorf("no uplink among %v", names)
	}
	if err := netlink.LinkSetName(link, guestLink); err != nil {
		return err
	}
	for _, addr := range v.Addresses {
		network := &net.IPNet{IP: addr.Addr().AsSlice(), Mask: net.CIDRMask(addr.Bits(), addr.Addr().BitLen())}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network, Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("adding address %s: %w", addr, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, gateway := range v.Gateways {
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("routing by %s: %w", gateway, err)
		}
	}
	return nil
}
