package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

const stateName = "lab.json"

// state is what is kept in the work directory beside the machines' own files.
type state struct {
	Config   Config
	Port     int      // of 127.0.0.1, forwarded to the API server
	Programs programs // that the machines were started with last
	Formed   bool     // the control plane has run: etcd's members know each other
}

// programs are where the machines have theirs from.
type programs struct {
	Kubernetes, Tools, Root string
	Product                 string // the checkout whose chart and image are installed
	Bench                   benchFiles
}

// Lab is one cluster, running or not.
type Lab struct {
	cfg    Config
	port   int
	formed bool
	cache  *build.Cache
	mu     sync.Mutex // of steps' output
	bin    programs
	// fingerprints are by image archive.
	fingerprints map[string]string
}

// New also reads what an earlier lab of the work directory was made with.
func New(cfg Config) (*Lab, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("settings of the lab: %w", err)
	}
	if cfg.CacheDir == "" {
		dir, err := build.DefaultDir()
		if err != nil {
			return nil, err
		}
		cfg.CacheDir = dir
	}
	l := &Lab{cfg: cfg}
	l.cache = &build.Cache{Dir: cfg.CacheDir, Repo: cfg.Repo, Say: l.say}
	return l, nil
}

// Open is a lab that is up already, with the settings that it was made with.
func Open(cfg Config) (*Lab, error) {
	l, err := New(cfg)
	if err != nil {
		return nil, err
	}
	saved, err := l.readState()
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no lab %q in %s", l.cfg.Name, l.cfg.Workdir)
	}
	if err != nil {
		return nil, err
	}
	saved.Config.Repo, saved.Config.CacheDir, saved.Config.Command, saved.Config.Out = l.cfg.Repo, l.cfg.CacheDir, l.cfg.Command, l.cfg.Out
	l.cfg, l.port, l.formed, l.bin = saved.Config, saved.Port, saved.Formed, saved.Programs
	return l, nil
}

// Config gives the lab's settings, completed.
func (l *Lab) Config() Config { return l.cfg }

// Cache is where the lab's programs and file systems are kept.
func (l *Lab) Cache() *build.Cache { return l.cache }

// Kubeconfig is the file with which the host's shell reaches the cluster, as its administrator.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.cfg.Workdir, "kubeconfig") }

// REST has no rate limit.
func (l *Lab) REST() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the lab's kubeconfig: %w", err)
	}
	cfg.QPS = -1
	return cfg, nil
}

// Client is the administrator's.
func (l *Lab) Client() (kubernetes.Interface, error) {
	cfg, err := l.REST()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

func (l *Lab) apiURL() string { return "https://" + l.cfg.apiAddress().String() }

func (l *Lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.cfg.Workdir}, parts...)...)
}

func (l *Lab) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.cfg.Out, format+"\n", args...)
}

// step does one part of Up and says how long it took.
func (l *Lab) step(name string, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.say("%6.1fs  %s", time.Since(start).Seconds(), name)
	return nil
}

// Up brings the lab up, or repairs it: what runs already is left as it is.
func (l *Lab) Up(ctx context.Context) error {
	start := time.Now()
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"Debian packages of this machine", l.cache.Packages},
		{"programs compiled, root file systems installed, once", l.build},
		{"kernel and NICs of the nodes that are VMs", l.buildBench},
		{"images", l.buildImages},
		{"images for the nodes, unpacked", l.unpackImages},
		{"machines and their network", l.machines},
		{"virtual machines booted", l.booted},
		{"control plane", l.control},
		{"images that are new to the nodes", l.loadAll},
		{"network: " + l.cfg.CNI, l.network},
		{"nodes ready", l.nodesReady},
		{"cluster DNS", l.dns},
		{"Multus", l.multus},
		{"pods on every node reach each other", l.Check},
	} {
		if err := l.step(part.name, func() error { return part.do(ctx) }); err != nil {
			return err
		}
	}
	l.say("%6.1fs  all", time.Since(start).Seconds())
	return nil
}

// build makes what the cache keeps, and gives this machine its kubectl.
func (l *Lab) build(ctx context.Context) error {
	if err := l.cache.FillLab(ctx); err != nil {
		return err
	}
	var err error
	if l.bin.Product, err = filepath.Abs(cmp.Or(l.cfg.Product, l.cfg.Repo)); err != nil {
		return err
	}
	if l.bin.Kubernetes, err = l.cache.Kubernetes(ctx); err != nil {
		return err
	}
	if l.bin.Root, err = l.cache.NodeRoot(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.cfg.Repo, "_output/bin"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"kubectl", "helm"} {
		link := filepath.Join(l.cfg.Repo, "_output/bin", name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Join(l.bin.Kubernetes, name), link); err != nil {
			return err
		}
	}
	return nil
}

// keepState refuses to change the settings of a lab that is there.
func (l *Lab) keepState() error {
	saved, err := l.readState()
	if errors.Is(err, os.ErrNotExist) {
		return l.writeState()
	}
	if err != nil {
		return err
	}
	// Nodes that are VMs may come later.
	l.cfg.VMNodes, l.cfg.Moved = max(l.cfg.VMNodes, saved.Config.VMNodes), saved.Config.Moved
	saved.Config.VMNodes = l.cfg.VMNodes
	want, err := json.Marshal(l.cfg)
	if err != nil {
		return err
	}
	have, err := json.Marshal(saved.Config)
	if err != nil {
		return err
	}
	if string(want) != string(have) {
		return fmt.Errorf("lab %q is there with other settings (%s): take it down first", l.cfg.Name, have)
	}
	l.port, l.formed = saved.Port, saved.Formed
	return l.writeState()
}

func (l *Lab) readState() (state, error) {
	var s state
	data, err := os.ReadFile(l.path(stateName))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", l.path(stateName), err)
	}
	s.Config.ControlPlanes = max(s.Config.ControlPlanes, 1)
	return s, nil
}

func (l *Lab) writeState() error {
	data, err := json.MarshalIndent(state{Config: l.cfg, Port: l.port, Programs: l.bin, Formed: l.formed}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(l.path(stateName), data, 0o644)
}

func (l *Lab) spec(name string) machine.Spec {
	dir := l.path("machines", name)
	spec := machine.Spec{Lab: l.cfg.Name, Name: name, Root: l.bin.Root, Dir: dir, Binds: []machine.Bind{
		{From: l.bin.Kubernetes, To: "/opt/lab/kubernetes", ReadOnly: true},
		{From: l.bin.Tools, To: "/opt/lab/bin", ReadOnly: true},
	}}
	if l.cfg.isVM(name) {
		return l.virtual(spec)
	}
	if name == fabric && l.cfg.pulls() {
		spec.Root = l.bin.Bench.Root // has a registry
	}
	if modules := "/lib/modules"; isDir(modules) {
		spec.Binds = append(spec.Binds, machine.Bind{From: modules, To: "/usr/lib/modules", ReadOnly: true})
	}
	if !slices.Contains(l.cfg.NodeNames(), name) {
		return spec
	}
	// Overlays on an overlay do not work, and containerd's snapshots are some.
	spec.Binds = append(spec.Binds, machine.Bind{From: filepath.Join(dir, "snapshots"), To: filepath.Join(containerdDir, snapshots)})
	return spec
}

func isDir(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.IsDir()
}
