package plugin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// maxID is the API's limit for a device's ID.
const maxID = 63

// registration is how long the kubelet may take for one.
const registration = 10 * time.Second

// server is one pool's service. The fields below mu are shared with the
// kubelet's calls, those above belong to Run.
type server struct {
	api.UnimplementedDevicePluginServer
	pool   Pool
	plugin *Plugin

	grpc       *grpc.Server
	path       string
	socket     identity
	registered identity // the kubelet of the last registration, with or without success

	mu      sync.Mutex
	devices []Device
	offered bool          // there were devices at some time
	changed chan struct{} // closed when devices change
	streams int           // of ListAndWatch
	since   time.Time     // of the last registration or end of a stream
}

func newServer(pool Pool, p *Plugin) *server {
	return &server{pool: pool, plugin: p, changed: make(chan struct{})}
}

// base is what the pool's sockets have in front of an @, which no resource's name
// has: the resource, or its hash where the path would become too long for a socket.
func (s *server) base() string {
	const longest, rest = 107, len("@0123456789ab") + len(socketEnd)
	base := filepath.Join(s.plugin.cfg.Dir, strings.ReplaceAll(s.pool.Resource, "/", "_"))
	if len(base)+rest > longest {
		return filepath.Join(s.plugin.cfg.Dir, fmt.Sprintf("%x", sha256.Sum256([]byte(s.pool.Resource)))[:16])
	}
	return base
}

// update reports whether there was a difference.
func (s *server) update(devices []Device) bool {
	devices = slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.ID == "" || len(d.ID) > maxID })
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(s.devices, devices) || len(s.devices)+len(devices) == 0 {
		return false
	}
	s.devices = devices
	s.offered = s.offered || len(devices) > 0
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

func (s *server) list() []Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices)
}

// wanted: a node without devices does not show a resource of which it has none
// and never had, but one that has lost them says zero.
func (s *server) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// serve listens, again if the socket is not ours any more. Each socket has a name
// of its own: kubelets refuse one that they believe to be connected still, and
// some never learn that it is not.
func (s *server) serve() error {
	if s.grpc != nil && s.socket.same(identify(s.path)) {
		return nil
	}
	s.stop()
	old, err := filepath.Glob(s.base() + "@*" + socketEnd)
	if err != nil {
		return fmt.Errorf("looking for former sockets: %w", err)
	}
	for _, path := range append(old, s.base()+socketEnd) { // the last is of former versions
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a former socket: %w", err)
		}
	}
	s.path = s.base() + "@" + strconv.FormatInt(time.Now().UnixMicro(), 36) + socketEnd
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	lis.SetUnlinkOnClose(false) // it might be another's by then
	s.socket = identify(s.path)
	s.grpc = grpc.NewServer()
	api.RegisterDevicePluginServer(s.grpc, s)
	go func(g *grpc.Server) {
		if err := g.Serve(lis); err != nil {
			s.plugin.cfg.Logger.Warn("serving devices ended", "resource", s.pool.Resource, "error", err)
		}
	}(s.grpc)
	return nil
}

func (s *server) stop() {
	if s.grpc == nil {
		return
	}
	s.grpc.Stop()
	if s.socket.same(identify(s.path)) {
		_ = os.Remove(s.path) // whoever serves next does it as well
	}
	s.grpc, s.socket, s.registered = nil, identity{}, identity{}
}

// register sends our socket to the kubelet, unless this kubelet already has a registration and a stream. Its reply may
// have been late, and a second registration is an error for a kubelet. A kubelet without a stream gets some time to open
// one, and register returns this time. A kubelet that ends closes the stream first, and then removes its socket.
func (s *server) register(ctx context.Context, kubelet identity) (unsure time.Duration, err error) {
	if s.registered.same(kubelet) {
		s.mu.Lock()
		streams, since := s.streams, s.since
		s.mu.Unlock()
		if streams > 0 {
			return 0, nil
		}
		if left := s.plugin.cfg.MinBackoff - time.Since(since); left > 0 {
			return left, nil
		}
	}
	s.registered = kubelet
	conn, err := grpc.NewClient("unix:"+filepath.Join(s.plugin.cfg.Dir, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials())) // a local socket that only root can open
	if err != nil {
		return 0, fmt.Errorf("registering: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, registration)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: filepath.Base(s.path), ResourceName: s.pool.Resource, Options: options(),
	})
	s.count(0) // also after an error: the kubelet may have the registration, and its stream may be on the way
	if err != nil {
		return 0, fmt.Errorf("registering: %w", err)
	}
	s.plugin.cfg.Logger.Info("registered with the kubelet", "resource", s.pool.Resource)
	return s.plugin.cfg.MinBackoff, nil // until its stream is there
}

func options() *api.DevicePluginOptions {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// GetDevicePluginOptions is for the kubelet.
func (s *server) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return options(), nil
}

// ListAndWatch is for the kubelet: all devices now and at each change.
func (s *server) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	s.count(1)
	defer func() {
		s.count(-1)
		s.plugin.nudge() // a running kubelet without a stream needs another registration
	}()
	for {
		s.mu.Lock()
		devices, changed := s.devices, s.changed
		s.mu.Unlock()
		if err := stream.Send(listing(devices)); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// count adds streams and notes the time.
func (s *server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams += n
	s.since = time.Now()
}

func listing(devices []Device) *api.ListAndWatchResponse {
	out := &api.ListAndWatchResponse{}
	for _, d := range devices {
		one := &api.Device{ID: d.ID, Health: api.Healthy}
		if d.Problem != "" {
			one.Health = api.Unhealthy
		}
		if d.NUMA >= 0 {
			one.Topology = &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: int64(d.NUMA)}}}
		}
		out.Devices = append(out.Devices, one)
	}
	return out
}
