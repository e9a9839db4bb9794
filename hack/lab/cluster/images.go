package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

const (
	containerdWithin = 30 * time.Second
	containerdDir    = "/var/lib/containerd"
	snapshots        = "io.containerd.snapshotter.v1.overlayfs/snapshots"
)

func (l *Lab) productImage() string {
	if l.bin.Product != "" && l.bin.Product != l.cfg.Repo {
		return l.path("images/product.tar")
	}
	return filepath.Join(l.cfg.Repo, "_output/image/ovn-offload.tar")
}

func (l *Lab) images() []string {
	images := []string{l.path("images/pause.tar"), l.path("images/tools.tar")}
	if l.cfg.CNI == CNIOffload {
		images = append(images, l.dnsImage(), l.productImage())
	}
	if l.cfg.Multus {
		images = append(images, l.multusImage())
	}
	return images
}

// buildImages makes the archives, and of them a containerd directory from which
// nodes start: its layers are hard links, so that nodes share them on disk and in memory.
func (l *Lab) buildImages(ctx context.Context) error {
	if err := os.MkdirAll(l.path("images"), 0o755); err != nil {
		return err
	}
	if err := l.keepState(); err != nil {
		return err
	}
	l.bin.Tools = l.path("bin")
	if err := l.cache.Tools(ctx, l.bin.Tools); err != nil {
		return err
	}
	if err := l.cache.Pause(l.bin.Tools, l.path("images/pause.tar")); err != nil {
		return err
	}
	if err := l.cache.TestImage(ctx, l.bin.Tools, l.path("images/tools.tar")); err != nil {
		return err
	}
	if l.cfg.Multus {
		if err := l.buildMultus(ctx); err != nil {
			return err
		}
	}
	if l.cfg.CNI == CNIOffload {
		if err := l.buildDNS(ctx); err != nil {
			return err
		}
		if err := l.cache.ProductImage(ctx, l.bin.Product, l.cfg.Suite, l.productImage()); err != nil {
			return err
		}
	}
	return l.readFingerprints()
}

func (l *Lab) readFingerprints() error {
	l.fingerprints = map[string]string{}
	for _, image := range l.images() {
		fingerprint, err := build.Fingerprint(image)
		if err != nil {
			return err
		}
		l.fingerprints[image] = fingerprint
	}
	return nil
}

// unpackImages gives nodes that are new a containerd directory with the images in it.
func (l *Lab) unpackImages(ctx context.Context) error {
	var missing []string
	for _, node := range l.cfg.NodeNames() {
		if !isDir(l.imported(node)) && !l.cfg.hasSystemd(node) {
			missing = append(missing, node)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	key := l.bin.Kubernetes
	for _, image := range l.images() {
		key += " " + l.fingerprints[image]
	}
	template, err := l.cache.Recent(ctx, "containerd", key, l.unpackTemplate)
	if err != nil {
		return err
	}
	for _, node := range missing {
		if err := l.cloneContainerd(ctx, template, node); err != nil {
			return fmt.Errorf("copying %s: %w", template, err)
		}
	}
	return nil
}

// imported is a directory with an empty file for each image that the node has, by fingerprint.
func (l *Lab) imported(node string) string { return l.path("machines", node, "imported") }

// unpackTemplate runs a machine with nothing but containerd, and imports the images there.
func (l *Lab) unpackTemplate(ctx context.Context, path string) error {
	const name = "images"
	spec := l.spec(name)
	defer func() { _ = os.RemoveAll(spec.Dir) }()
	if before, err := machine.Find(l.cfg.Name, name); err != nil {
		return err
	} else if before != nil { // of an Up that was killed
		if err := before.Kill(); err != nil {
			return err
		}
	}
	spec.Binds = append(spec.Binds, machine.Bind{From: filepath.Join(path, "containerd"), To: containerdDir})
	if err := errors.Join(os.MkdirAll(filepath.Join(path, "containerd"), 0o755), os.MkdirAll(filepath.Join(path, "imported"), 0o755), os.MkdirAll(spec.Config(), 0o755), writeContainerdConfig(spec.Config())); err != nil {
		return err
	}
	if err := spec.SetServices(nodeServices(name, nil)[:1]); err != nil {
		return err
	}
	m, err := machine.Start(l.cfg.Command, spec)
	if err != nil {
		return err
	}
	err = containerdReady(ctx, m)
	for _, image := range l.images() {
		if err == nil {
			err = l.load(ctx, m, image)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(path, "imported", l.fingerprints[image]), nil, 0o644)
		}
	}
	return errors.Join(err, m.Kill())
}

func containerdReady(ctx context.Context, m *machine.Machine) error {
	ctx, cancel := context.WithTimeout(ctx, containerdWithin)
	defer cancel()
	return poll(ctx, runEvery, func() error { return m.Command(ctx, "ctr", "version").Run() })
}

// cloneContainerd links what never changes and copies the databases. The node's
// directory of imported images comes last: with it the rest is complete.
func (l *Lab) cloneContainerd(ctx context.Context, template, node string) error {
	const clone = `from=$1 to=$2 upper=$3 snapshots=$4
rm -rf "$upper/containerd" "$to/snapshots"
mkdir -p "$upper" "$to"
cp -al "$from/containerd" "$upper/" 2>/dev/null || { rm -rf "$upper/containerd"; cp -a "$from/containerd" "$upper/"; }
(cd "$from/containerd" && find . -name '*.db' -exec cp --remove-destination {} "$upper/containerd"/{} \;)
mv "$upper/containerd/$snapshots" "$to/snapshots"
cp -a "$from/imported" "$to/"`
	upper := filepath.Join(l.spec(node).Upper(), filepath.Dir(containerdDir))
	cmd := exec.CommandContext(ctx, "sh", "-ec", clone, "clone", template, l.path("machines", node), upper, snapshots)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// loadAll imports what nodes do not have: images that were built again.
func (l *Lab) loadAll(ctx context.Context) error {
	err := l.eachNode(ctx, func(ctx context.Context, node *machine.Machine) error {
		for _, image := range l.images() {
			mark := filepath.Join(l.imported(node.Name), l.fingerprints[image])
			if _, err := os.Stat(mark); err == nil {
				continue
			}
			if err := containerdReady(ctx, node); err != nil {
				return err
			}
			if err := l.load(ctx, node, image); err != nil {
				return err
			}
			if err := os.WriteFile(mark, nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.push(ctx)
}

// Load imports an image archive into every node. Nodes that pull their images find it in the registry.
func (l *Lab) Load(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	if err := l.eachNode(ctx, func(ctx context.Context, node *machine.Machine) error { return l.load(ctx, node, archive) }); err != nil {
		return err
	}
	return l.push(ctx)
}

func (l *Lab) load(ctx context.Context, node *machine.Machine, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := node.Command(ctx, "ctr", "-n", "k8s.io", "images", "import", "-")
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("importing %s on %s: %w: %s", filepath.Base(archive), node.Name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// eachNode is about nodes into which images are imported.
func (l *Lab) eachNode(ctx context.Context, do func(context.Context, *machine.Machine) error) error {
	nodes, err := l.nodes()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		if l.cfg.hasSystemd(node.Name) {
			continue
		}
		group.Go(func() error { return do(ctx, node) })
	}
	return group.Wait()
}
