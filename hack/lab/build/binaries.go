package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// module is the Go module of the cluster's binaries, apart from the product's.
const module = "hack/lab/kubernetes"

// goFlags are those of the Makefile: with others Kubernetes' client would be compiled once more.
// Debug information, which no program of ours keeps, takes the compiler a sixth of its time.
const goFlags = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false"

const containerdTags = "no_btrfs no_devmapper no_zfs no_aufs"

// components are the names under which the one Kubernetes binary is called.
func components() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "helm"}
}

// target is one go build.
type target struct {
	packages []string
	tags     string
	ldflags  string
}

// Kubernetes gives the directory of etcd, containerd, the CNI plug-ins of the
// bridge network, and Kubernetes with its components as symbolic links.
func (c *Cache) Kubernetes(ctx context.Context) (string, error) {
	dir := filepath.Join(c.Repo, module)
	key, err := hashFiles(filepath.Join(dir, "etcd/main.go"), filepath.Join(dir, "hyperkube/main.go"), filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	version, err := kubernetesVersion(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	return c.once(ctx, "kubernetes-"+version+"-"+runtime.GOARCH, key, func(ctx context.Context, path string) error {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		for _, t := range targets(version) {
			if err := c.goBuild(ctx, dir, path, t); err != nil {
				return err
			}
		}
		for _, name := range components() {
			if err := os.Symlink("hyperkube", filepath.Join(path, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// CoreDNS gives the program that serves the cluster's names.
func (c *Cache) CoreDNS(ctx context.Context) (string, error) {
	dir := filepath.Join(c.Repo, "hack/lab/coredns")
	key, err := hashFiles(filepath.Join(dir, "main.go"), filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	path, err := c.once(ctx, "coredns-"+runtime.GOARCH, key, func(ctx context.Context, path string) error {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return c.goBuild(ctx, dir, path, target{packages: []string{"."}, ldflags: "-s -w"})
	})
	return filepath.Join(path, "coredns"), err
}

// Multus gives the directory of Multus' daemon, the plugin that calls the daemon, and the program that installs the
// plugin.
func (c *Cache) Multus(ctx context.Context) (string, error) {
	dir := filepath.Join(c.Repo, "hack/lab/multus")
	key, err := hashFiles(filepath.Join(dir, "multus.go"), filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	return c.once(ctx, "multus-"+runtime.GOARCH, key, func(ctx context.Context, path string) error {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		const commands = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/"
		return c.goBuild(ctx, dir, path, target{
			packages: []string{commands + "multus-daemon", commands + "multus-shim", commands + "install_multus", commands + "passthru-cni"}, ldflags: "-s -w",
		})
	})
}

func targets(version string) []target {
	ldflags := "-s -w" + versionStamp(version)
	const containerd = "github.com/containerd/containerd/v2/cmd/"
	const plugins = "github.com/containernetworking/plugins/plugins/"
	return []target{
		{packages: []string{"./etcd"}, ldflags: "-s -w"},
		{packages: []string{containerd + "containerd", containerd + "containerd-shim-runc-v2", containerd + "ctr"}, tags: containerdTags, ldflags: "-s -w"},
		{packages: []string{plugins + "main/bridge", plugins + "ipam/host-local"}, ldflags: "-s -w"},
		{packages: []string{"./hyperkube"}, ldflags: ldflags},
	}
}

// versionStamp is what the linker needs for programs that say their version.
func versionStamp(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const stamp = " -X k8s.io/component-base/version."
	return stamp + "gitVersion=" + version + stamp + "gitMajor=" + parts[0] + stamp + "gitMinor=" + parts[1]
}

func kubernetesVersion(gomod string) (string, error) {
	data, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "k8s.io/kubernetes" {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("reading %s: it does not require k8s.io/kubernetes", gomod)
}

// goBuild compiles into out and says how far it is: the first build takes minutes.
func (c *Cache) goBuild(ctx context.Context, dir, out string, t target) error {
	args := []string{"go", "build", "-v", "-tags", t.tags, "-ldflags", t.ldflags, "-o", out + "/"}
	cmd := command(ctx, dir, append(args, t.packages...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	name := filepath.Base(t.packages[0])
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	var tail []string
	count, start, said := 0, time.Now(), time.Now()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		count++
		tail = append(tail, lines.Text())
		tail = tail[max(0, len(tail)-10):]
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			c.Say("    building %s: %d packages compiled in %s", name, count, time.Since(start).Round(time.Second))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, strings.Join(tail, "\n"))
	}
	return nil
}

// Tools builds the lab's own small programs (probe, pause) into dir; Go's cache makes it quick.
func (c *Cache) Tools(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return c.run(ctx, "go", "build", "-ldflags", "-s -w", "-o", dir+"/", "./hack/lab/pause", "./test/probe")
}

// ProductImage makes the image of ovn-offload itself from a checkout, whose version may be another one. It has the name
// that the checkout's chart has, and the tag dev. OVS and OVN are those of a suite of Debian; "": the default.
func (c *Cache) ProductImage(ctx context.Context, checkout, suite, out string) error {
	text, err := os.ReadFile(filepath.Join(checkout, "deploy/chart/values.yaml"))
	if err != nil {
		return err
	}
	var values struct {
		Image struct{ Repository string }
	}
	if err := yaml.Unmarshal(text, &values); err != nil || values.Image.Repository == "" {
		return fmt.Errorf("the chart of %s has no image.repository: %w", checkout, err)
	}
	args := []string{"go", "run", "./hack/image", "-tag", values.Image.Repository + ":dev", "-out", out}
	if suite != "" {
		args = append(args, "-suite", suite)
	}
	return c.runIn(ctx, checkout, args...)
}

// productBase makes the base layer of that image, which its maker keeps.
func (c *Cache) productBase(ctx context.Context) (string, error) {
	return "", c.run(ctx, "go", "run", "./hack/image", "-base-only")
}

// run executes a command in the repository; its output is shown when it ends badly.
func (c *Cache) run(ctx context.Context, args ...string) error { return c.runIn(ctx, c.Repo, args...) }

func (c *Cache) runIn(ctx context.Context, dir string, args ...string) error {
	cmd := command(ctx, dir, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		return fmt.Errorf("running %s: %w\n%s", strings.Join(args[:min(3, len(args))], " "), err, bytes.Join(slices.Clip(lines[max(0, len(lines)-15):]), []byte("\n")))
	}
	return nil
}

// command ends with ctx, and so does all that it has started.
func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS="+goFlags)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return cmd
}
