// Command image writes the product's container image as an OCI archive, without docker: a base layer of Debian packages
// (OVS, OVN and what an operator needs beside them) made by mmdebstrap, and on it one layer with our static programs
// and the files under hack/image/rootfs. `ctr images import`, podman and skopeo read the archive.
//
// The base is cached by its package list and by the week, so that security
// updates arrive and a change of our code costs seconds. deploy/Containerfile
// describes the same image for people with docker or podman.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/image/debian"
	"github.com/ovn-offload/ovn-offload/hack/image/oci"
	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

func main() { product.Main("image", run) }

type options struct {
	out, name, cache, version, arch, suite, root string
	partial, baseOnly                            bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.out, "out", "_output/image/ovn-offload.tar", "the archive to write")
	flags.StringVar(&o.name, "tag", "", "name and tag of the image (default: the chart's repository, tag dev)")
	flags.StringVar(&o.cache, "cache", "", "directory for base layers (default: ovn-offload/image in the user's cache)")
	flags.StringVar(&o.version, "version", "", "version stamped into the programs (default: from git)")
	flags.StringVar(&o.arch, "arch", runtime.GOARCH, "GOARCH of the image; another than this machine's needs its binfmt (hack/binfmt)")
	flags.StringVar(&o.suite, "suite", debian.DefaultSuite, "suite of Debian: one that hack/image/debian/pins.txt has")
	flags.StringVar(&o.root, "root", "", "directory to make with the content of the image, beside the archive")
	flags.BoolVar(&o.partial, "partial", false, "leave out programs that do not build, instead of stopping")
	flags.BoolVar(&o.baseOnly, "base-only", false, "make the base layer for later runs, and no image")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.cache == "" {
		var err error
		if o.cache, err = product.DefaultCache(); err != nil {
			return fmt.Errorf("finding the cache directory (set -cache): %w", err)
		}
	}
	if o.baseOnly {
		_, err := debian.NewBase(o.suite, o.arch, time.Now()).Ensure(ctx, o.cache)
		return err
	}
	return build(ctx, o)
}

func build(ctx context.Context, o options) error {
	source, err := product.FindSource(ctx)
	if err != nil {
		return err
	}
	if o.version == "" {
		o.version = source.Version
	}
	repository, tag, err := o.names(source.Root)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ovn-offload-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	archive, err := oci.Create(o.out)
	if err != nil {
		return err
	}
	defer archive.Discard()
	image := product.Image{Root: source.Root, Cache: o.cache, Work: work, Suite: o.suite, Arch: o.arch, Version: o.version, Created: source.Created}
	if o.partial {
		image.Partial = func(p product.Program, err error) {
			fmt.Fprintf(os.Stderr, "  left out %s: %v\n", p.Name, err)
		}
	}
	built, err := product.Build(ctx, archive, image)
	if err != nil {
		return err
	}
	if o.root != "" {
		if err := product.Unpack(ctx, work, built, o.root); err != nil {
			return err
		}
	}
	archive.Name(built.Image, repository, tag)
	return archive.Close()
}

// names gives repository and tag of the image.
func (o options) names(root string) (string, string, error) {
	if o.name == "" {
		repository, err := product.Repository(root)
		return repository, "dev", err
	}
	at := strings.LastIndex(o.name, ":")
	if at < strings.LastIndex(o.name, "/") || at < 1 || at == len(o.name)-1 {
		return "", "", fmt.Errorf("-tag %s is not a name and a tag, such as registry.example.com/ovn-offload:v0.1.0", o.name)
	}
	return o.name[:at], o.name[at+1:], nil
}
