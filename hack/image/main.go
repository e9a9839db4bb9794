// Command image writes the product's container image as a docker-archive tar
// file, without docker: a base layer of Debian 13 packages (OVS, OVN and what
// an operator needs beside them) made by mmdebstrap, and on it one layer with
// our static binaries and the files under hack/image/rootfs.
//
// The base is cached by its package list and by the week, so that security
// updates arrive and a change of our code costs seconds. OVS and OVN have the
// versions of pins.txt: a base with others is an error. deploy/Containerfile
// describes the same image for people with docker or podman.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	out, tag, cache, version, arch string
	partial, baseOnly              bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.out, "out", "_output/image/ovn-offload.tar", "the archive to write")
	flags.StringVar(&o.tag, "tag", "", "name and tag of the image (default: the chart's repository, tag dev)")
	flags.StringVar(&o.cache, "cache", "", "directory for base layers (default: ovn-offload/image in the user's cache)")
	flags.StringVar(&o.version, "version", "", "version stamped into the binaries (default: from git)")
	flags.StringVar(&o.arch, "arch", runtime.GOARCH, "GOARCH of the image; another than this machine's needs its binfmt")
	flags.BoolVar(&o.partial, "partial", false, "leave out binaries that do not build, instead of stopping")
	flags.BoolVar(&o.baseOnly, "base-only", false, "make the base layer for later runs, and no image")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("finding the cache directory (set -cache): %w", err)
		}
		o.cache = filepath.Join(dir, "ovn-offload", "image")
	}
	return build(ctx, o)
}

func build(ctx context.Context, o options) error {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/ovn-offload/ovn-offload")
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	if o.tag == "" {
		if o.tag, err = defaultTag(filepath.Join(root, "deploy", "chart", "values.yaml")); err != nil {
			return err
		}
	}
	if o.version == "" {
		if o.version, err = output(ctx, root, "git", "describe", "--always", "--dirty"); err != nil {
			o.version = "dev"
		}
	}
	b := defaultBase(o.arch, time.Now())
	var baseLayer layer
	err = step("base layer of Debian "+b.suite, func() error {
		baseLayer, err = b.ensure(ctx, o.cache)
		return err
	})
	if err != nil || o.baseOnly {
		return err
	}
	work, err := os.MkdirTemp("", "ovn-offload-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var names []string
	err = step("binaries "+o.version, func() error {
		names, err = buildBinaries(ctx, root, work, o)
		return err
	})
	if err != nil {
		return err
	}
	return step("writing "+o.out, func() error {
		ours, err := writeProductLayer(filepath.Join(work, "layer.tar"), filepath.Join(root, "hack", "image", "rootfs"), work, names)
		if err != nil {
			return err
		}
		return writeArchive(o, baseLayer, ours)
	})
}

// defaultTag names the image of a working tree. The chart's values are the one place that has its repository.
func defaultTag(valuesFile string) (string, error) {
	text, err := os.ReadFile(valuesFile)
	if err != nil {
		return "", fmt.Errorf("reading the image's repository: %w", err)
	}
	var values struct {
		Image struct{ Repository string }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return "", fmt.Errorf("reading the image's repository from %s: %w", valuesFile, err)
	}
	if values.Image.Repository == "" {
		return "", fmt.Errorf("%s has no image.repository", valuesFile)
	}
	return values.Image.Repository + ":dev", nil
}

// binaries maps the name in the image to the command that it is built from.
var binaries = [][2]string{
	{"ovn-offload-controller", "./cmd/controller"},
	{"ovn-offload-agent", "./cmd/agent"},
	{"ovn-k8s-cni-overlay", "./cmd/cni"},
}

func buildBinaries(ctx context.Context, root, work string, o options) ([]string, error) {
	var names []string
	for _, b := range binaries {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version="+o.version,
			"-o", filepath.Join(work, b[0]), b[1])
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.arch)
		out, err := cmd.CombinedOutput()
		switch {
		case err == nil:
			names = append(names, b[0])
		case o.partial:
			fmt.Fprintf(os.Stderr, "  left out %s: %s does not build: %s\n", b[0], b[1], firstLines(out, 3))
		default:
			return nil, fmt.Errorf("building %s (-partial leaves it out): %w\n%s", b[1], err, out)
		}
	}
	return names, nil
}

func step(name string, do func() error) error {
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

func firstLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[:min(n, len(lines))], "; ")
}
