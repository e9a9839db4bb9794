package podresources

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
)

var web = types.NamespacedName{Namespace: "default", Name: "web"}

const uid = types.UID("uid-1")

// kubelet is the server's side. Refusals are given before any answer.
type kubelet struct {
	api.UnimplementedPodResourcesListerServer
	pods  []*api.PodResources
	noGet error // what Get answers for all pods
	asked func()

	mu       sync.Mutex
	refusals []error
	gets     atomic.Int32
	lists    atomic.Int32
}

func (k *kubelet) refuse() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.refusals) == 0 {
		return nil
	}
	err := k.refusals[0]
	k.refusals = k.refusals[1:]
	return err
}

func (k *kubelet) Get(_ context.Context, r *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	k.gets.Add(1)
	if err := k.refuse(); err != nil {
		return nil, err
	}
	if k.noGet != nil {
		return nil, k.noGet
	}
	if k.asked != nil {
		k.asked()
	}
	for _, p := range k.pods {
		if p.Name == r.PodName && p.Namespace == r.PodNamespace {
			return &api.GetPodResourcesResponse{PodResources: p}, nil
		}
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found", r.PodName, r.PodNamespace) // as the real one
}

func (k *kubelet) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	k.lists.Add(1)
	if err := k.refuse(); err != nil {
		return nil, err
	}
	return &api.ListPodResourcesResponse{PodResources: k.pods}, nil
}

func (k *kubelet) serve(t *testing.T, socket string) {
	t.Helper()
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Error(err)
		return
	}
	s := grpc.NewServer()
	api.RegisterPodResourcesListerServer(s, k)
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
}

func client(t *testing.T, socket string, uidOf UIDOf) *Client {
	t.Helper()
	c, err := New(socket, uidOf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func known(context.Context, types.NamespacedName) (types.UID, error) { return uid, nil }

func devices(resource string, ids ...string) *api.ContainerDevices {
	return &api.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

func pods() []*api.PodResources {
	return []*api.PodResources{
		{Namespace: "other", Name: "web", Containers: []*api.ContainerResources{
			{Devices: []*api.ContainerDevices{devices("ovn-offload.io/vf", "0000:09:00.2")}}}},
		{Namespace: "default", Name: "web", Containers: []*api.ContainerResources{
			{Name: "last", Devices: []*api.ContainerDevices{
				devices("ovn-offload.io/vf", "0000:05:00.3"), devices("example.com/gpu", "gpu1"),
				devices("ovn-offload.io/vf", "0000:05:00.2"), // of the other NUMA node
			}},
			{Name: "first", Devices: []*api.ContainerDevices{devices("ovn-offload.io/vf", "0000:03:00.2")}},
			{Name: "none"},
		}},
		{Namespace: "default", Name: "plain", Containers: []*api.ContainerResources{{Name: "c"}}},
	}
}

func TestDevices_OfPodFromEachKubelet(t *testing.T) {
	want := map[string][]string{
		"ovn-offload.io/vf": {"0000:05:00.2", "0000:05:00.3", "0000:03:00.2"}, "example.com/gpu": {"gpu1"},
	}
	for name, k := range map[string]*kubelet{
		"get":          {},
		"switched off": {noGet: errors.New("PodResources API Get method disabled")},
		"old kubelet":  {noGet: status.Error(codes.Unimplemented, "unknown method Get")},
		"too many": {refusals: []error{
			status.Error(codes.ResourceExhausted, "rejected by rate limit"), status.Error(codes.ResourceExhausted, "rejected by rate limit")}},
		"list, too many": {noGet: errors.New("disabled"), refusals: []error{
			nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")}},
	} {
		t.Run(name, func(t *testing.T) {
			k.pods = pods()
			socket := filepath.Join(t.TempDir(), "k.sock")
			k.serve(t, socket)
			c := client(t, socket, known)
			got, err := c.Devices(t.Context(), web, uid)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if k.noGet == nil && k.lists.Load() != 0 {
				t.Error("listed all pods though Get has the answer")
			}
			if got, err := c.Devices(t.Context(), types.NamespacedName{Namespace: "default", Name: "plain"}, uid); err != nil || len(got) != 0 {
				t.Errorf("a pod without devices has %v: %v", got, err)
			}
			if got, err := c.Devices(t.Context(), types.NamespacedName{Namespace: "default", Name: "gone"}, uid); !errors.Is(err, ErrNotFound) {
				t.Errorf("a pod that is not there has %v: %v", got, err)
			}
		})
	}
}

func TestDevices_RefusesOtherPodOfSameName(t *testing.T) {
	k := &kubelet{pods: pods()}
	socket := filepath.Join(t.TempDir(), "k.sock")
	var current atomic.Value
	current.Store(uid)
	uidOf := func(context.Context, types.NamespacedName) (types.UID, error) { return current.Load().(types.UID), nil }
	k.serve(t, socket)
	c := client(t, socket, uidOf)
	if _, err := c.Devices(t.Context(), web, "uid-0"); !errors.Is(err, ErrAnotherPod) || k.gets.Load() != 0 {
		t.Errorf("devices of the next pod for the last one: %v", err)
	}
	k.asked = func() { current.Store(types.UID("uid-2")) } // replaced in between
	if got, err := c.Devices(t.Context(), web, uid); !errors.Is(err, ErrAnotherPod) {
		t.Errorf("got %v: %v", got, err)
	}
	if _, err := client(t, socket, func(context.Context, types.NamespacedName) (types.UID, error) {
		return "", ErrNotFound
	}).Devices(t.Context(), web, uid); !errors.Is(err, ErrNotFound) {
		t.Errorf("a pod that the API does not have: %v", err)
	}
}

func TestDevices_WaitsForKubelet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "k.sock")
	c := client(t, socket, known)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Devices(short, web, uid); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without a kubelet: %v", err)
	}
	long, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Devices(long, web, uid)
		done <- err
	}()
	(&kubelet{pods: pods()}).serve(t, socket)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
