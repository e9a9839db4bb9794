// Command release makes all files of a release, without docker: the image for each architecture as one OCI index, the
// Helm chart, manifests for kubectl, an SPDX bill of materials for each image, release notes and checksums.
//
//	source tree + version -> product.Build, chart, SBOM, notes -> _output/release
//
// Two runs on the same commit and the same Debian packages give the same files. docs/release.md describes them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/ovn-offload/ovn-offload/hack/image/debian"
	"github.com/ovn-offload/ovn-offload/hack/image/oci"
	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

func main() { product.Main("release", run) }

// release is one to make.
type release struct {
	product.Source
	version    string // v0.1.0
	out        string // directory
	work       string
	cache      string
	suite      string
	archs      []string
	repository string // of the image
}

func run(ctx context.Context, args []string) error {
	var r release
	var archs string
	var dirty bool
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0; CHANGELOG.md has its notes")
	flags.StringVar(&r.out, "out", "_output/release", "directory for the files; what it has is removed")
	flags.StringVar(&r.suite, "suite", debian.DefaultSuite, "suite of Debian: one that hack/image/debian/pins.txt has")
	flags.StringVar(&archs, "archs", "amd64,arm64", "GOARCHs of the image; others than this machine's need hack/binfmt")
	flags.BoolVar(&dirty, "dirty", false, "accept changes that are not committed; the files are then those of no commit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	r.archs = strings.Split(archs, ",")
	if err := r.prepare(ctx, dirty); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	return r.make(ctx)
}

// prepare finds out what the release is made of, and refuses what is none.
func (r *release) prepare(ctx context.Context, dirty bool) error {
	if err := checkVersion(r.version); err != nil {
		return err
	}
	var err error
	if r.Source, err = product.FindSource(ctx); err != nil {
		return err
	}
	if !dirty {
		if err := committed(ctx, r.Root); err != nil {
			return err
		}
	}
	if r.repository, err = product.Repository(r.Root); err != nil {
		return err
	}
	if r.cache, err = product.DefaultCache(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	r.work, err = os.MkdirTemp("", "ovn-offload-release-")
	return err
}

func checkVersion(version string) error {
	number, found := strings.CutPrefix(version, "v")
	if _, err := semver.StrictNewVersion(number); !found || err != nil {
		return fmt.Errorf("version %q is not a semantic version such as v0.1.0", version)
	}
	return nil
}

func committed(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "git", "status", "--porcelain")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("looking for changes that are not committed: %w", err)
	}
	if len(out) > 0 {
		return fmt.Errorf("the tree has changes that are not committed (-dirty accepts them):\n%s", out)
	}
	return nil
}

func (r *release) make(ctx context.Context) error {
	if err := r.notes(); err != nil {
		return err
	}
	image, err := r.image(ctx)
	if err != nil {
		return err
	}
	if err := r.plugin(ctx); err != nil {
		return err
	}
	if err := r.chart(ctx); err != nil {
		return err
	}
	if err := r.write("image.txt", fmt.Sprintf("%s:%s@%s\n", r.repository, r.version, image.Digest)); err != nil {
		return err
	}
	return product.Step("checksums", func() error { return checksums(r.out) })
}

// image writes the archive with the images for all architectures, and the bill of materials of each.
func (r *release) image(ctx context.Context) (ocispec.Descriptor, error) {
	archive, err := oci.Create(filepath.Join(r.out, "ovn-offload-"+r.version+".oci.tar"))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer archive.Discard()
	var images []ocispec.Descriptor
	for _, arch := range r.archs {
		work := filepath.Join(r.work, arch)
		if err := os.Mkdir(work, 0o755); err != nil {
			return ocispec.Descriptor{}, err
		}
		built, err := product.Build(ctx, archive, product.Image{Root: r.Root, Cache: r.cache, Work: work, Suite: r.suite, Arch: arch,
			Version: r.version, Created: r.Created, Compress: true})
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		if err := product.Step("starting the image for "+arch, func() error { return try(ctx, work, built) }); err != nil {
			return ocispec.Descriptor{}, err
		}
		if err := r.materials(arch, built); err != nil {
			return ocispec.Descriptor{}, err
		}
		images = append(images, built.Image)
	}
	index, err := archive.Index(ctx, map[string]string{ocispec.AnnotationVersion: r.version, ocispec.AnnotationSource: "https://" + product.Module}, images...)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	archive.Name(index, r.repository, r.version)
	return index, archive.Close()
}

// plugin writes kubectl's plugin for the machines of administrators.
func (r *release) plugin(ctx context.Context) error {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range r.archs {
			program := product.Program{Name: strings.Join([]string{"kubectl-offload", r.version, system, arch}, "-"), Package: "./cmd/kubectl-offload", OS: system}
			if system == "windows" {
				program.Name += ".exe"
			}
			if err := product.Step(program.Name, func() error {
				return product.Compile(ctx, product.Image{Root: r.Root, Work: r.out, Arch: arch, Version: r.version}, program)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) write(name, text string) error {
	return os.WriteFile(filepath.Join(r.out, name), []byte(text), 0o644)
}
