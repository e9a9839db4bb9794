package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const kubernetesModule = "k8s.io/kubernetes"

// Conformance gives the directory of what Kubernetes' own tests of the network need: the programs
// network.test and ginkgo, and what is in the images of the tests' pods.
func (c *Cache) Conformance(ctx context.Context) (string, error) {
	dir := filepath.Join(c.Repo, module)
	gomod := filepath.Join(dir, "go.mod")
	key, err := hashFiles(filepath.Join(dir, "conformance/conformance_test.go"), gomod)
	if err != nil {
		return "", err
	}
	version, err := kubernetesVersion(gomod)
	if err != nil {
		return "", err
	}
	return c.once(ctx, "conformance-"+version+"-"+runtime.GOARCH, key, func(ctx context.Context, path string) error {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		c.Say("    building Kubernetes' tests of the network (minutes, once)")
		gocmd := func(args ...string) error {
			return c.run(ctx, append([]string{"go", "-C", dir}, args...)...)
		}
		ldflags := "-s -w" + versionStamp(version)
		const images = kubernetesModule + "/test/images/"
		if err := errors.Join(
			gocmd("test", "-c", "-vet=off", "-ldflags", ldflags, "-o", filepath.Join(path, "network.test"), "./conformance"),
			gocmd("build", "-ldflags", ldflags, "-o", path+"/", "github.com/onsi/ginkgo/v2/ginkgo", images+"agnhost", images+"regression-issue-74839"),
		); err != nil {
			return err
		}
		source, err := command(ctx, dir, "go", "list", "-m", "-f", "{{.Dir}}", kubernetesModule).Output()
		if err != nil {
			return fmt.Errorf("finding %s: %w", kubernetesModule, err)
		}
		return copyFiles(filepath.Join(strings.TrimSpace(string(source)), "test/images/agnhost/porter"), path, "localhost.crt", "localhost.key")
	})
}

// ConformanceImages makes the images of Kubernetes' own tests from programs (see Conformance), under the names that the tests use.
// A tool of the real images that is not in the lab's root file system is a package of conformancePackages.
func (c *Cache) ConformanceImages(ctx context.Context, programs, pause, out string) error {
	text, err := command(ctx, programs, filepath.Join(programs, "network.test"), "-images").Output()
	if err != nil {
		return fmt.Errorf("asking for the names of the images: %w", err)
	}
	var names map[string]string
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	base, err := c.layer(ctx, "conformance-layer", append(toolPackages(), conformancePackages()...))
	if err != nil {
		return err
	}
	coredns, err := c.CoreDNS(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{"coredns": coredns, "pause": pause}
	for _, name := range []string{"agnhost", "regression-issue-74839", "localhost.crt", "localhost.key"} {
		files[name] = filepath.Join(programs, name)
	}
	own, nc := out+".layer", out+".nc"
	defer func() { _ = errors.Join(os.Remove(own), os.Remove(nc)) }()
	// busybox's nc ends its side of a connection at the end of its input, and OpenBSD's does not.
	if err := errors.Join(fileLayer(own, files), linkLayer(nc, map[string]string{"usr/local/bin/nc": "/usr/bin/busybox"})); err != nil {
		return err
	}
	layers := []string{base, own}
	return archive(out,
		image{tag: names["agnhost"], entrypoint: []string{"/agnhost"}, command: []string{"pause"}, layers: layers},
		image{tag: names["busybox"], command: []string{"sh"}, layers: append(slices.Clone(layers), nc)},
		image{tag: names["dns"], command: []string{"bash"}, layers: layers},
		image{tag: names["nginx"], command: []string{"nginx", "-g", "daemon off;"}, layers: layers},
		image{tag: names["pause"], entrypoint: []string{"/pause"}, layers: layers},
		image{tag: names["regression-issue-74839"], entrypoint: []string{"/regression-issue-74839"}, layers: layers})
}

func conformancePackages() []string {
	return []string{"bind9-dnsutils", "busybox", "iperf", "nginx-light", "socat", "wget"}
}

func copyFiles(from, to string, names ...string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
