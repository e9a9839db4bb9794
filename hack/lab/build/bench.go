package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const (
	kernelSource = "test/bench/kernel"
	swsimSource  = "test/bench/swsim"
)

// Platform is what the bench's VMs are.
type Platform struct {
	Arch  string // as Go names it
	Pages int    // their size in KiB
}

// DefaultPlatform is that of the machines which run the tests.
func DefaultPlatform() Platform { return Platform{Arch: "amd64", Pages: 4} }

// Check refuses what the bench has no kernel for.
func (p Platform) Check() error {
	if p == DefaultPlatform() || p.Arch == "arm64" && (p.Pages == 4 || p.Pages == 64) {
		return nil
	}
	return fmt.Errorf("no kernel for %s with pages of %d KiB: amd64 has 4, arm64 has 4 and 64", p.Arch, p.Pages)
}

// configs are the parts of the kernel's configuration, beside that of all.
func (p Platform) configs() []string {
	if p.Arch == "amd64" {
		return []string{p.Arch}
	}
	return []string{p.Arch, fmt.Sprintf("%dk", p.Pages)}
}

// prefix begins the names of what is cached for another platform than the default.
func (p Platform) prefix() string {
	if p == DefaultPlatform() {
		return ""
	}
	return fmt.Sprintf("%s-%dk-", p.Arch, p.Pages)
}

// Kernel is the kernel of the bench's VMs.
type Kernel struct {
	Platform
	Image string // what QEMU boots
	tree  string // what modules are built with
}

// BenchPackages installs what the bench needs on the host.
func (c *Cache) BenchPackages(ctx context.Context, p Platform) error {
	packages := []string{"mmdebstrap", "ca-certificates", "gcc", "make", "libc6-dev",
		"flex", "bison", "bc", "libelf-dev", "libssl-dev", "xz-utils", "cpio", "qemu-system-x86"}
	if p.Arch == "arm64" {
		packages = append(packages, "qemu-system-arm", "ipxe-qemu", "gcc-aarch64-linux-gnu")
	}
	return c.run(ctx, append([]string{filepath.Join(c.Repo, "hack/packages")}, packages...)...)
}

// Kernel gives a kernel of the bench, built from Debian's sources.
func (c *Cache) Kernel(ctx context.Context, p Platform) (Kernel, error) {
	source := filepath.Join(c.Repo, kernelSource)
	script := filepath.Join(source, "build")
	inputs := []string{script, filepath.Join(source, "config")}
	for _, part := range p.configs() {
		inputs = append(inputs, filepath.Join(source, "config."+part))
	}
	key, err := hashFiles(inputs...)
	if err != nil {
		return Kernel{}, err
	}
	dir, err := c.once(ctx, p.prefix()+"kernel", key, func(ctx context.Context, path string) error {
		c.Say("    building the kernel of the bench for %s with pages of %d KiB (some minutes, once)", p.Arch, p.Pages)
		return c.run(ctx, append([]string{script, mirror, suite, path}, p.configs()...)...)
	})
	return Kernel{Platform: p, Image: filepath.Join(dir, "image"), tree: filepath.Join(dir, "build")}, err
}

// cross are the words that have make build for another architecture than the host's.
func (k Kernel) cross() []string {
	if k.Arch == "arm64" {
		return []string{"ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"}
	}
	return nil
}

// Swsim gives swsim.ko, the simulated NIC, built for the kernel.
func (c *Cache) Swsim(ctx context.Context, k Kernel) (string, error) {
	files, err := filepath.Glob(filepath.Join(c.Repo, swsimSource, "*"))
	if err != nil {
		return "", err
	}
	key, err := hashFiles(slices.Concat(files, []string{filepath.Join(k.tree, ".config")})...)
	if err != nil {
		return "", err
	}
	dir, err := c.Recent(ctx, k.prefix()+"swsim", key+k.tree, func(ctx context.Context, path string) error {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(path, filepath.Base(file)), data, 0o644); err != nil {
				return err
			}
		}
		return c.run(ctx, append([]string{"make", "-s", "-C", k.tree, "M=" + path, "modules"}, k.cross()...)...)
	})
	return filepath.Join(dir, "swsim.ko"), err
}

// VMInit compiles the first process of the bench's VMs; Go's cache makes it quick.
func (c *Cache) VMInit(ctx context.Context, p Platform, out string) error {
	return c.run(ctx, "env", "GOARCH="+p.Arch, "go", "build", "-ldflags", "-s -w", "-o", out, "./test/bench/vminit")
}

// BenchRoot gives the root file system of the bench's VMs: the packages of the
// lab's nodes and OVN, which has no container here.
func (c *Cache) BenchRoot(ctx context.Context) (string, error) {
	packages := append(nodePackages(), "ovn-central", "ovn-host")
	return c.once(ctx, "bench-root", hash(append(packages, suite)...), func(ctx context.Context, path string) error {
		c.Say("    installing Debian %s with %d packages for the bench", suite, len(packages))
		return c.debian(ctx, path, packages)
	})
}

// SystemdRoot gives the root file system of VMs that boot with systemd and NetworkManager. The registry is for the lab's
// machine outside of them, which has the same root.
func (c *Cache) SystemdRoot(ctx context.Context) (string, error) {
	packages := append(nodePackages(), "systemd-sysv", "udev", "dbus", "network-manager", "docker-registry")
	return c.once(ctx, "systemd-root", hash(append(packages, suite)...), func(ctx context.Context, path string) error {
		c.Say("    installing Debian %s with %d packages and systemd for the bench", suite, len(packages))
		return c.debian(ctx, path, packages)
	})
}
