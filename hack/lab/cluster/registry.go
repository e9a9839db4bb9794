package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

const registryPort = 5000

// The registry is on fabric, which no node can harm. Nodes ask it in the place of all registries, by plain HTTP.
const (
	registryConfig = `version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: /var/lib/registry}}
http: {addr: %q}
`
	mirrorConfig = `[host."http://%s"]
capabilities = ["pull", "resolve"]
`
	// mirrorPath is containerd's setting for mirrorConfig.
	mirrorPath = `[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '` + etc + `certs.d'
`
)

func (l *Lab) registry() netip.AddrPort { return l.cfg.endpoint(fabric, registryPort) }

// registryServices are those of fabric when there are nodes that have no images of their own.
func (l *Lab) registryServices() []machine.Service {
	if !l.cfg.pulls() {
		return nil
	}
	return []machine.Service{{Name: "registry", Args: []string{"docker-registry", "serve", etc + "registry.yml"}}}
}

func (l *Lab) registryFiles(dir string) error {
	return os.WriteFile(filepath.Join(dir, "registry.yml"), fmt.Appendf(nil, registryConfig, l.registry()), 0o644)
}

// mirrorFiles lets a node's containerd pull from the registry.
func (l *Lab) mirrorFiles(dir string) error {
	hosts := filepath.Join(dir, "certs.d", "_default")
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(hosts, "hosts.toml"), fmt.Appendf(nil, mirrorConfig, l.registry()), 0o644); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(dir, "containerd.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = config.Close() }()
	_, err = config.WriteString(mirrorPath)
	return err
}

// push puts the images of the first node into the registry.
func (l *Lab) push(ctx context.Context) error {
	if !l.cfg.pulls() {
		return nil
	}
	node := l.cfg.NodeNames()[0]
	out, err := l.Exec(ctx, node, "ctr", "-n", "k8s.io", "images", "ls", "-q")
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return strings.Contains(name, "sha256:") })
	for _, name := range names {
		_, path, _ := strings.Cut(name, "/")
		err := poll(ctx, lookEvery, func() error { // of which the registry's start is one
			_, err := l.Exec(ctx, node, "ctr", "-n", "k8s.io", "images", "push", "--plain-http", l.registry().String()+"/"+path, name)
			return err
		})
		if err != nil {
			return fmt.Errorf("pushing %s: %w", name, err)
		}
	}
	return nil
}
