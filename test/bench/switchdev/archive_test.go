//go:build bench

package switchdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const archive = "../../../pkg/vf/testdata/swsim.txtar"

// TestArchive_IsThatOfKernel: the archive with which pkg/vf is tested elsewhere is what the
// kernel says, and an inventory of it is that of the real thing.
func TestArchive_IsThatOfKernel(t *testing.T) {
	tier.In(t, "nic")
	node, _ := openNode(t)
	for _, pci := range nics(t) {
		nicSet(t, pci, "switchdev", "2")
		t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	}
	pci := nics(t)[0]
	real := inventory(t, node)
	for _, port := range []string{real.PFs[0].Uplink().Name, real.PFs[0].VFs[0].Representor.Name} {
		run(t, "ethtool", "-K", port, "hw-tc-offload", "on")
		run(t, "ip", "link", "set", port, "up")
	}
	run(t, "ip", "link", "set", real.PFs[0].VFs[0].Netdev.Name, "up")
	write(t, "/sys/bus/pci/drivers/swsim/unbind", function(t, pci, 1))
	eventually(t, "the representor's carrier", 10*time.Second, func() bool {
		real = inventory(t, node)
		return real.PFs[0].VFs[0].Representor.Carrier && real.PFs[0].VFs[0].Netdev.Carrier
	})
	text := capture(t, real)
	world, err := vftest.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	again, err := (&vf.Node{Sysfs: world.Sysfs(), Kernel: world.Kernel, Links: world, Events: world.Kernel}).Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(real, again, cmpopts.IgnoreFields(vf.Netdev{}, "Index", "PermanentMAC"), cmp.AllowUnexported(vf.PCIAddress{})); diff != "" {
		t.Errorf("the inventory of the archive (-kernel +archive):\n%s", diff)
	}
	stored := strings.SplitN(read(t, archive), "\n\n", 2)[1]
	if diff := cmp.Diff(stored, strings.TrimSpace(anonymous(text))); diff != "" {
		t.Errorf("%s is not what the kernel says now (-stored +kernel):\n%s\nthe new one:\n%s", archive, diff, anonymous(text))
	}
}

func function(t *testing.T, pci string, n int) string {
	t.Helper()
	target, err := os.Readlink(fmt.Sprintf("/sys/bus/pci/devices/%s/virtfn%d", pci, n))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(target)
}

// anonymous takes out what is drawn at each start of the module, and numbers
// that depend on the machine's other devices.
func anonymous(text string) string {
	groups := map[string]string{}
	text = regexp.MustCompile(`iommu_groups/\d+`).ReplaceAllStringFunc(text, func(group string) string {
		if groups[group] == "" {
			groups[group] = fmt.Sprintf("iommu_groups/%d", len(groups)+1)
		}
		return groups[group]
	})
	text = regexp.MustCompile(`02:53:..:..`).ReplaceAllString(text, "02:53:0a:1b")
	return regexp.MustCompile(`0253....(0000)`).ReplaceAllString(text, "02530a1b$1")
}

// capture writes the devices of swsim in the form of vftest.
func capture(t *testing.T, inv vf.Inventory) string {
	t.Helper()
	var out strings.Builder
	var dirs []string
	for _, class := range []string{driver + "0000:*", "/sys/bus/pci/devices/*/physfn", "/sys/class/net/*"} {
		paths, err := filepath.Glob(class)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			dir, err := filepath.EvalSymlinks(strings.TrimSuffix(path, "/physfn"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(dir, "/0000:") || strings.HasPrefix(filepath.Base(dir), "swsim") {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		fmt.Fprintf(&out, "-- %s --\n", strings.TrimPrefix(dir, "/sys/"))
		if strings.Contains(dir, "/net/") {
			captureNetdev(t, &out, dir)
		} else {
			captureFunction(t, &out, dir)
		}
	}
	captureDevlink(t, &out, inv)
	return out.String()
}

func captureFunction(t *testing.T, out *strings.Builder, dir string) {
	t.Helper()
	attrs(out, dir, "vendor", "device", "class", "numa_node")
	attrs(out, dir, "sriov_totalvfs", "sriov_numvfs")
	links, err := filepath.Glob(dir + "/virtfn*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range append([]string{dir + "/driver", dir + "/physfn", dir + "/iommu_group"}, links...) {
		if target, err := os.Readlink(link); err == nil {
			fmt.Fprintf(out, "%s -> %s\n", filepath.Base(link), target)
		}
	}
}

func captureNetdev(t *testing.T, out *strings.Builder, dir string) {
	t.Helper()
	line := []string{"address=" + read(t, dir+"/address"), "mtu=" + read(t, dir+"/mtu")}
	var flags int
	if _, err := fmt.Sscanf(read(t, dir+"/flags"), "0x%x", &flags); err != nil {
		t.Fatal(err)
	}
	if flags&unix.IFF_UP != 0 {
		line = append(line, "flags=up", "carrier="+read(t, dir+"/carrier"))
	}
	if features, _ := try("ethtool", "-k", filepath.Base(dir)); strings.Contains(features, "hw-tc-offload: on") {
		line = append(line, "hw-tc-offload=on")
	} else if strings.Contains(features, "hw-tc-offload: off\n") {
		line = append(line, "hw-tc-offload=off")
	}
	fmt.Fprintln(out, strings.Join(line, "  "))
	attrs(out, dir, "phys_port_name")
	attrs(out, dir, "phys_switch_id")
}

// attrs writes those that there are on a line, and one that is refused on its own.
func attrs(out *strings.Builder, dir string, names ...string) {
	var line []string
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
			fmt.Fprintf(out, "%s E:EOPNOTSUPP\n", name)
		case err == nil:
			line = append(line, name+"="+strings.TrimSpace(string(text)))
		}
	}
	if len(line) > 0 {
		fmt.Fprintln(out, strings.Join(line, "  "))
	}
}

func captureDevlink(t *testing.T, out *strings.Builder, inv vf.Inventory) {
	t.Helper()
	_, devices := openNode(t)
	fmt.Fprintln(out, "-- devlink --")
	for _, pf := range inv.PFs {
		e, err := devices.Eswitch(pf.Name)
		if err != nil {
			t.Fatal(err)
		}
		if e.Mode == "" {
			continue
		}
		fmt.Fprintf(out, "dev pci/%s  mode=%s  inline=%s  encap=%s\n", pf.Name, e.Mode, e.InlineMode, e.EncapMode)
		ports, err := devices.DevlinkPorts(pf.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if p.Device == pf.Name {
				fmt.Fprintln(out, devlinkPort(p))
			}
		}
	}
	if inv.RDMA != "" {
		fmt.Fprintf(out, "-- rdma --\n%s\n", inv.RDMA)
	}
}

func devlinkPort(p netdev.DevlinkPort) string {
	words := []string{fmt.Sprintf("port %s/%s/%d", p.Bus, p.Device, p.Index), "flavour=" + string(p.Flavour)}
	number := func(name string, n *uint32) {
		if n != nil {
			words = append(words, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	number("controller", p.Controller)
	number("pf", p.PF)
	number("number", p.Number)
	if p.External != nil {
		words = append(words, fmt.Sprintf("external=%t", *p.External))
	}
	if p.Function.MAC != nil {
		words = append(words, "mac="+p.Function.MAC.String())
	}
	return strings.Join(append(words, "netdev="+p.Netdev), "  ")
}
