package build

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

const (
	suite  = "trixie"
	mirror = "http://deb.debian.org/debian"
)

// toolPackages are in the test image and on the nodes.
func toolPackages() []string {
	return []string{"iproute2", "iputils-ping", "ethtool", "nftables", "conntrack", "procps", "tcpdump", "iperf3", "curl", "netcat-openbsd"}
}

// nodePackages are on the nodes only: what kubelet and containerd need, and the clients of OVS and OVN. haproxy is for
// the machine in front of several API servers, which has the same root.
func nodePackages() []string {
	return append(toolPackages(), "crun", "ca-certificates", "kmod", "openvswitch-switch", "ovn-common", "haproxy")
}

// NodeRoot gives the directory with the root file system of the machines.
func (c *Cache) NodeRoot(ctx context.Context) (string, error) {
	packages := nodePackages()
	return c.once(ctx, "node-root", hash(append(packages, suite)...), func(ctx context.Context, path string) error {
		c.Say("    installing Debian %s with %d packages for the nodes", suite, len(packages))
		return c.debian(ctx, path, packages)
	})
}

// toolsLayer gives the root file system of the test image as a tar file.
func (c *Cache) toolsLayer(ctx context.Context) (string, error) {
	return c.layer(ctx, "tools-layer", toolPackages())
}

// layer gives a root file system with the packages as a tar file.
func (c *Cache) layer(ctx context.Context, kind string, packages []string) (string, error) {
	return c.once(ctx, kind, hash(append(packages, suite)...), func(ctx context.Context, path string) error {
		c.Say("    installing Debian %s with %d packages for the %s", suite, len(packages), kind)
		if err := c.debian(ctx, path+".tar", packages); err != nil {
			return err
		}
		return os.Rename(path+".tar", path)
	})
}

// debian makes a root file system without manuals and translations; the target's
// name decides between a directory and a tar file.
func (c *Cache) debian(ctx context.Context, target string, packages []string) error {
	args := []string{"mmdebstrap", "--quiet", "--variant=minbase", "--include=" + strings.Join(packages, ",")}
	for _, dir := range []string{"doc", "man", "locale", "info"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+dir+"/*")
	}
	args = append(args, "--aptopt=Acquire::Languages \"none\"", suite, target, mirror)
	return c.run(ctx, args...)
}

// Packages installs the Debian packages that the lab needs on the host.
func (c *Cache) Packages(ctx context.Context) error {
	script := filepath.Join(c.Repo, "hack/packages")
	return c.run(ctx, script, "mmdebstrap", "util-linux", "ca-certificates")
}
