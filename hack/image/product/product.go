// Package product makes the product's image for one architecture: Debian's base layer, and on it a layer with our
// static programs and the files of hack/image/rootfs.
package product

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/hack/image/debian"
	"github.com/ovn-offload/ovn-offload/hack/image/oci"
)

// Module is the path of the product's Go module.
const Module = "github.com/ovn-offload/ovn-offload"

// Program is a program of the image, and the package that it is built from.
type Program struct {
	Name, Package string
	OS            string // GOOS; empty: linux
}

// Programs lists the programs of the image.
func Programs() []Program {
	return []Program{
		{Name: "ovn-offload-controller", Package: "./cmd/controller"},
		{Name: "ovn-offload-agent", Package: "./cmd/agent"},
		{Name: "ovn-k8s-cni-overlay", Package: "./cmd/cni"},
		{Name: "ovn-offload-relay", Package: "./cmd/relay"},
		{Name: "kubectl-offload", Package: "./cmd/kubectl-offload"}, // helm test runs it
	}
}

// Image is one to make.
type Image struct {
	Root     string // of the source tree
	Cache    string // directory for base layers
	Work     string // empty directory for programs and layers; it has to outlive the archive
	Suite    string // of Debian
	Arch     string // GOARCH
	Version  string
	Created  time.Time
	Compress bool
	Partial  func(Program, error) // called for a program that does not build; nil: this is an error
}

// Built is what an image was made of.
type Built struct {
	Image    ocispec.Descriptor
	Base     string   // file of the base layer, without compression
	Programs []string // files
}

// Build makes the image and writes it into an archive.
func Build(ctx context.Context, archive *oci.Archive, i Image) (Built, error) {
	var b Built
	err := Step(fmt.Sprintf("base layer of Debian %s for %s", i.Suite, i.Arch), func() (err error) {
		b.Base, err = debian.NewBase(i.Suite, i.Arch, time.Now()).Ensure(ctx, i.Cache)
		return err
	})
	if err != nil {
		return Built{}, err
	}
	var names []string
	err = Step(fmt.Sprintf("programs %s for %s", i.Version, i.Arch), func() (err error) {
		names, err = i.build(ctx)
		return err
	})
	if err != nil {
		return Built{}, err
	}
	for _, name := range names {
		b.Programs = append(b.Programs, filepath.Join(i.Work, name))
	}
	err = Step("image for "+i.Arch, func() error {
		layers, err := i.layers(b.Base, names)
		if err != nil {
			return err
		}
		labels := map[string]string{ocispec.AnnotationVersion: i.Version, ocispec.AnnotationLicenses: "Apache-2.0", ocispec.AnnotationSource: "https://" + Module}
		b.Image, err = archive.Image(ctx, oci.Config{Arch: i.Arch, Created: i.Created, Labels: labels}, layers...)
		return err
	})
	return b, err
}

// Unpack makes a root directory with the layers of an image. The directory must not exist.
func Unpack(ctx context.Context, work string, b Built, root string) error {
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	for _, layer := range []string{b.Base, programsLayer(work)} {
		if out, err := exec.CommandContext(ctx, "tar", "-C", root, "-xf", layer).CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking %s: %w\n%s", layer, err, out)
		}
	}
	return nil
}

func programsLayer(work string) string { return filepath.Join(work, "programs.tar") }

func (i Image) layers(base string, names []string) ([]oci.Layer, error) {
	lower, err := oci.OpenLayer(base)
	if err != nil {
		return nil, err
	}
	upper, err := oci.Files(programsLayer(i.Work), filepath.Join(i.Root, "hack", "image", "rootfs"), i.Work, names)
	if err != nil || !i.Compress {
		return []oci.Layer{lower, upper}, err
	}
	if lower, err = oci.Compress(lower, filepath.Join(i.Work, "base.tar.gz")); err != nil {
		return nil, err
	}
	upper, err = oci.Compress(upper, filepath.Join(i.Work, "programs.tar.gz"))
	return []oci.Layer{lower, upper}, err
}

// build compiles the programs into the work directory.
func (i Image) build(ctx context.Context) ([]string, error) {
	var names []string
	for _, p := range Programs() {
		err := Compile(ctx, i, p)
		switch {
		case err == nil:
			names = append(names, p.Name)
		case i.Partial != nil:
			i.Partial(p, err)
		default:
			return nil, err
		}
	}
	return names, nil
}

// Compile builds a program for an image's architecture into its work directory.
func Compile(ctx context.Context, i Image, p Program) error {
	out, err := filepath.Abs(filepath.Join(i.Work, p.Name))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version="+i.Version,
		"-o", out, p.Package)
	cmd.Dir = i.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+cmp.Or(p.OS, "linux"), "GOARCH="+i.Arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.Package, err, out)
	}
	return nil
}

// Repository is the name of the image without a tag. The chart's values are the one place that has it.
func Repository(root string) (string, error) {
	file := filepath.Join(root, "deploy", "chart", "values.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the image's repository: %w", err)
	}
	var values struct {
		Image struct{ Repository string }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return "", fmt.Errorf("reading the image's repository from %s: %w", file, err)
	}
	if values.Image.Repository == "" {
		return "", fmt.Errorf("%s has no image.repository", file)
	}
	return values.Image.Repository, nil
}

// Source is the source tree that a build is made from.
type Source struct {
	Root    string
	Version string
	Created time.Time // of the commit; the epoch without git
}

// FindSource looks up the source tree of the working directory.
func FindSource(ctx context.Context) (Source, error) {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", Module)
	if err != nil {
		return Source{}, fmt.Errorf("finding the module: %w", err)
	}
	s := Source{Root: root, Version: "dev", Created: time.Unix(0, 0)}
	if version, err := output(ctx, root, "git", "describe", "--always", "--dirty"); err == nil {
		s.Version = version
	}
	if text, err := output(ctx, root, "git", "log", "-1", "--format=%cI"); err == nil {
		if s.Created, err = time.Parse(time.RFC3339, text); err != nil {
			return Source{}, fmt.Errorf("reading the time of the commit: %w", err)
		}
	}
	return s, nil
}

// DefaultCache is the directory of base layers in the user's cache.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "ovn-offload", "image"), err
}

// Main runs a command until it ends or is interrupted. Its error ends the process.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		stop()
		os.Exit(1)
	}
}

// Step runs a step and prints its duration.
func Step(name string, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%-60s %6.1f s\n", name, time.Since(start).Seconds())
	return nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
