package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// The registry's name in Config.Dir, and how ours end.
const (
	kubeletSocket = "kubelet.sock"
	socketEnd     = ".sock"
)

// Config is what the agent decides for its node.
type Config struct {
	Pools []Pool
	// Dir is the kubelet's directory of device plugins, InfoDir that of
	// device-info files.
	Dir, InfoDir string
	Sysfs        netdev.Sysfs
	Logger       *slog.Logger
	// MinBackoff to MaxBackoff are between tries to register. MinBackoff is
	// also how long the kubelet may take to ask for devices after it.
	MinBackoff, MaxBackoff time.Duration
	// Settle is how long an RDMA device may be between two namespaces.
	RDMATimeout time.Duration
}

// Defaults leaves Sysfs and Logger to be set.
func Defaults() Config {
	return Config{
		Pools: DefaultPools(), Dir: api.DevicePluginPath, InfoDir: "/var/run/k8s.cni.cncf.io/devinfo/dp",
		MinBackoff: time.Second, MaxBackoff: time.Minute, RDMATimeout: 2 * time.Second,
	}
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	switch {
	case c.Dir == "" || c.InfoDir == "":
		return errors.New("device plugin: directories must be set")
	case c.Logger == nil:
		return errors.New("device plugin: logger must be set")
	case c.RDMATimeout <= 0:
		return errors.New("device plugin: RDMA timeout must be set")
	case c.MinBackoff <= 0 || c.MaxBackoff < c.MinBackoff:
		return fmt.Errorf("device plugin: back-off from %s to %s", c.MinBackoff, c.MaxBackoff)
	}
	return validate(c.Pools)
}

// Claims tells who has or holds a device; *ledger.Ledger has them.
type Claims interface {
	Holder(device string) (ledger.Claim, bool)
	// Held is why a device cannot be claimed now, nil when it can.
	Held(device string) error
}

// Plugin serves the pools.
type Plugin struct {
	cfg     Config
	claims  Claims
	servers []*server
	wake    chan struct{}
	backoff time.Duration // Run's own
}

// New does nothing yet. Until Update there are no devices.
func New(cfg Config, claims Claims) (*Plugin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Plugin{cfg: cfg, claims: claims, wake: make(chan struct{}, 1), backoff: cfg.MinBackoff}
	for _, pool := range cfg.Pools {
		p.servers = append(p.servers, newServer(pool, p))
	}
	return p, nil
}

// Update gives the plugin all devices of the node, of which it does not offer
// those that no pool matches. To be called whenever they change, by one
// goroutine, before and while Run runs.
func (p *Plugin) Update(devices []Device) error {
	former := map[string]string{}
	for resource, devices := range p.Offered() {
		for _, d := range devices {
			former[d.ID] = resource
		}
	}
	of := assign(p.cfg.Pools, devices, p.claims, former)
	var errs []error
	for _, s := range p.servers {
		if s.update(of[s.pool.Resource]) {
			p.cfg.Logger.Info("devices changed", "resource", s.pool.Resource, "devices", len(of[s.pool.Resource]))
		}
		errs = append(errs, s.removeStaleInfo())
	}
	p.nudge()
	return errors.Join(errs...)
}

// Offered gives the devices of each resource, as they were given to Update.
func (p *Plugin) Offered() map[string][]Device {
	out := map[string][]Device{}
	for _, s := range p.servers {
		out[s.pool.Resource] = s.list()
	}
	return out
}

func (p *Plugin) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run serves until ctx ends, whose error it returns, or until the kubelet's
// directory cannot be watched any more.
func (p *Plugin) Run(ctx context.Context) error {
	if err := os.MkdirAll(p.cfg.Dir, 0o750); err != nil {
		return fmt.Errorf("serving devices: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", p.cfg.Dir, err)
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(p.cfg.Dir); err != nil {
		return fmt.Errorf("watching %s: %w", p.cfg.Dir, err)
	}
	defer func() {
		for _, s := range p.servers {
			s.stop()
		}
	}()
	again := time.NewTimer(0) // at once
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-watcher.Events:
			if matters, err := p.relevant(e); err != nil {
				return err
			} else if !matters {
				continue
			}
		case err := <-watcher.Errors:
			// Events may be lost, so that it is time to look.
			p.cfg.Logger.Warn("watching the kubelet's directory", "error", err)
		case <-p.wake:
		case <-again.C:
		}
		again.Stop()
		if wait := p.registerAll(ctx); wait > 0 {
			again.Reset(wait)
		}
	}
}

// relevant reports whether an event can matter. Most are about the kubelet's
// checkpoint, which is there as well.
func (p *Plugin) relevant(e fsnotify.Event) (matters bool, err error) {
	removed := e.Has(fsnotify.Remove | fsnotify.Rename)
	switch {
	case removed && e.Name == filepath.Clean(p.cfg.Dir):
		return false, fmt.Errorf("watching %s: it was removed", p.cfg.Dir)
	case filepath.Ext(e.Name) != socketEnd:
		return false, nil
	case filepath.Base(e.Name) == kubeletSocket:
		p.backoff = p.cfg.MinBackoff
	}
	return removed || e.Has(fsnotify.Create), nil
}

// registerAll serves every pool that has devices and registers it with the running
// kubelet. It says after how long to try again; zero: at the next event.
func (p *Plugin) registerAll(ctx context.Context) time.Duration {
	kubelet := identify(filepath.Join(p.cfg.Dir, kubeletSocket))
	var wait time.Duration
	sooner := func(d time.Duration) {
		if d > 0 && (wait == 0 || d < wait) {
			wait = d
		}
	}
	failed := false
	for _, s := range p.servers {
		if !s.wanted() {
			continue
		}
		err := s.serve()
		if err == nil && kubelet.exists() {
			var unsure time.Duration
			unsure, err = s.register(ctx, kubelet)
			sooner(unsure)
		}
		if err != nil && ctx.Err() == nil {
			failed = true
			p.cfg.Logger.Warn("serving devices", "resource", s.pool.Resource, "error", err, "retry", p.backoff)
		}
	}
	if !failed {
		p.backoff = p.cfg.MinBackoff
		return wait
	}
	sooner(p.backoff)
	p.backoff = min(2*p.backoff, p.cfg.MaxBackoff)
	return wait
}

// identity tells a file from the next one of that name: inode numbers are used
// again at once.
type identity struct{ found os.FileInfo }

func identify(path string) identity {
	found, err := os.Lstat(path)
	if err != nil {
		return identity{} // not there, or as good as that
	}
	return identity{found}
}

func (i identity) exists() bool { return i.found != nil }

func (i identity) same(o identity) bool {
	return i.exists() && o.exists() && os.SameFile(i.found, o.found) && i.found.ModTime().Equal(o.found.ModTime())
}
