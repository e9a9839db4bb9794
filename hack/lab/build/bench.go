package build

import (
	"context"
	"os"
	"path/filepath"
	"slices"
)

const (
	kernelSource = "test/bench/kernel"
	swsimSource  = "test/bench/swsim"
)

// Kernel is the kernel of the bench's VMs.
type Kernel struct {
	Image string // what QEMU boots
	tree  string // what modules are built with
}

// BenchPackages installs what the bench needs on the host.
func (c *Cache) BenchPackages(ctx context.Context) error {
	return c.run(ctx, filepath.Join(c.Repo, "hack/packages"), "mmdebstrap", "ca-certificates", "gcc", "make", "libc6-dev",
		"flex", "bison", "bc", "libelf-dev", "libssl-dev", "xz-utils", "cpio", "qemu-system-x86")
}

// Kernel gives the bench's kernel, built from Debian's sources.
func (c *Cache) Kernel(ctx context.Context) (Kernel, error) {
	source := filepath.Join(c.Repo, kernelSource)
	script := filepath.Join(source, "build")
	key, err := hashFiles(script, filepath.Join(source, "config"))
	if err != nil {
		return Kernel{}, err
	}
	dir, err := c.once(ctx, "kernel", key, func(ctx context.Context, path string) error {
		c.Say("    building the kernel of the bench (some minutes, once)")
		return c.run(ctx, script, mirror, suite, path)
	})
	tree := filepath.Join(dir, "build")
	return Kernel{Image: filepath.Join(tree, "arch/x86/boot/bzImage"), tree: tree}, err
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
	dir, err := c.Recent(ctx, "swsim", key+k.tree, func(ctx context.Context, path string) error {
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
		return c.run(ctx, "make", "-s", "-C", k.tree, "M="+path, "modules")
	})
	return filepath.Join(dir, "swsim.ko"), err
}

// VMInit compiles the first process of the bench's VMs; Go's cache makes it quick.
func (c *Cache) VMInit(ctx context.Context, out string) error {
	return c.run(ctx, "go", "build", "-ldflags", "-s -w", "-o", out, "./test/bench/vminit")
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
