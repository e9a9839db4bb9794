package plugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is the device manager's side of the API over real sockets, in the
// order of the real one: a start empties the directory, a registration dials
// the plugin, and one for a socket that is connected is refused; after that it
// does not notice any more when that socket's stream ends.
type kubelet struct {
	t   *testing.T
	dir string

	mu        sync.Mutex
	grpc      *grpc.Server
	plugins   map[string]*remote
	connected map[string]bool // sockets
	stuck     map[string]bool
	registers int
	refuse    error
	late      bool // the next registration's answer does not come
	changed   chan struct{}
}

// remote is a plugin that has registered.
type remote struct {
	api.DevicePluginClient
	conn    *grpc.ClientConn
	options *api.DevicePluginOptions
	devices map[string]*api.Device
	lists   int
	ended   bool
}

type registry struct {
	api.UnimplementedRegistrationServer
	k *kubelet
}

func newKubelet(t *testing.T) *kubelet {
	k := &kubelet{t: t, dir: t.TempDir(), plugins: map[string]*remote{}, changed: make(chan struct{})}
	k.connected, k.stuck = map[string]bool{}, map[string]bool{}
	t.Cleanup(k.stop)
	return k
}

func (k *kubelet) start() {
	k.t.Helper()
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(k.dir, e.Name())); err != nil {
			k.t.Fatal(err)
		}
	}
	lis, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		k.t.Fatal(err)
	}
	g := grpc.NewServer()
	api.RegisterRegistrationServer(g, registry{k: k})
	k.mu.Lock()
	k.grpc = g
	k.mu.Unlock()
	go func() { _ = g.Serve(lis) }()
}

func (k *kubelet) stop() {
	k.mu.Lock()
	g, plugins := k.grpc, k.plugins
	k.grpc, k.plugins = nil, map[string]*remote{}
	k.connected, k.stuck = map[string]bool{}, map[string]bool{}
	k.mu.Unlock()
	if g != nil {
		g.Stop()
	}
	for _, r := range plugins {
		_ = r.conn.Close()
	}
}

// note is called with mu held.
func (k *kubelet) note() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func (r registry) Register(_ context.Context, q *api.RegisterRequest) (*api.Empty, error) {
	k := r.k
	k.mu.Lock()
	defer k.mu.Unlock()
	k.registers++
	k.note()
	switch {
	case k.refuse != nil:
		return nil, k.refuse
	case q.Version != "v1beta1":
		return nil, fmt.Errorf("version %q", q.Version)
	case k.connected[q.Endpoint]:
		k.stuck[q.Endpoint] = true
		return nil, fmt.Errorf("device plugin already connected: %s", q.Endpoint)
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.dir, q.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	one := &remote{DevicePluginClient: api.NewDevicePluginClient(conn), conn: conn, options: q.Options}
	stream, err := one.ListAndWatch(context.Background(), &api.Empty{}, grpc.WaitForReady(false))
	if err != nil {
		return nil, err
	}
	k.plugins[q.ResourceName] = one
	k.connected[q.Endpoint] = true
	go k.follow(one, q.Endpoint, stream)
	if k.late {
		k.late = false
		return nil, context.DeadlineExceeded
	}
	return &api.Empty{}, nil
}

func (k *kubelet) follow(one *remote, endpoint string, stream grpc.ServerStreamingClient[api.ListAndWatchResponse]) {
	for {
		list, err := stream.Recv()
		k.mu.Lock()
		if err != nil {
			one.ended = true
			k.connected[endpoint] = k.stuck[endpoint]
			k.note()
			k.mu.Unlock()
			return
		}
		one.devices = map[string]*api.Device{}
		for _, d := range list.Devices {
			one.devices[d.ID] = d
		}
		one.lists++
		k.note()
		k.mu.Unlock()
	}
}

// wait is until ok, which is called with mu held.
func (k *kubelet) wait(what string, ok func() bool) {
	k.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		k.mu.Lock()
		done, changed := ok(), k.changed
		k.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			k.t.Fatalf("waiting for %s: it did not come", what)
		}
	}
}

// devices waits for a list of so many, and gives the plugin.
func (k *kubelet) devices(resource string, healthy, unhealthy int) *remote {
	k.t.Helper()
	var found *remote
	k.wait(fmt.Sprintf("%d healthy and %d unhealthy devices of %s", healthy, unhealthy, resource), func() bool {
		one := k.plugins[resource]
		if one == nil || one.lists == 0 || one.ended {
			return false
		}
		got := 0
		for _, d := range one.devices {
			if d.Health == api.Healthy {
				got++
			}
		}
		found = one
		return got == healthy && len(one.devices) == healthy+unhealthy
	})
	return found
}

func (k *kubelet) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registers
}
