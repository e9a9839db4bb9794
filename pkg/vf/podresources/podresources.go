// Package podresources asks the kubelet which devices a pod has.
//
// Place in the data flow:
//
//	pod in the API: its UID  \
//	                          > Devices -> resource: device ids -> ledger.Take -> pkg/cni attaches one
//	kubelet's socket: Get    /
//
// Neither Multus nor annotations are needed for it. The kubelet decides before
// it makes the sandbox, so that at ADD the answer is final. It answers by name
// only, and a StatefulSet's pods are made again under the same name; so the UID
// is compared with the API's before and after the question.
//
// The kubelet gives the ids in the order of a map. Attachments take them in
// turn, so they need an order that stays: that of the containers, and sorted
// within each. Kubelets before 1.34 may not have Get: then it is List, of all
// pods. The kubelet turns callers away who ask too much, as when all pods of a
// node start at once; such an answer is no answer, and it is asked again.
package podresources

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// DefaultSocket is where the kubelet serves it.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

const (
	// maxAnswer is for List: some hundred pods with many devices each.
	maxAnswer    = 16 << 20
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
)

// ErrNotFound says that the kubelet or the API has no such pod. At ADD that is
// passing: the sandbox is there, so the pod was.
var ErrNotFound = errors.New("pod not found")

// ErrAnotherPod says that the name is another pod's by now.
var ErrAnotherPod = errors.New("another pod has this name")

// UIDOf asks the API for a pod's UID; ErrNotFound when there is none.
type UIDOf func(ctx context.Context, pod types.NamespacedName) (types.UID, error)

// Client is safe for concurrent use.
type Client struct {
	conn  *grpc.ClientConn
	api   api.PodResourcesListerClient
	uidOf UIDOf
}

// New does not connect yet; the kubelet may come and go.
func New(socket string, uidOf UIDOf) (*Client, error) {
	retry := backoff.DefaultConfig
	retry.BaseDelay, retry.MaxDelay = firstBackoff, lastBackoff
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a local socket that only root can open
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: lastBackoff}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	)
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet at %s: %w", socket, err)
	}
	return &Client{conn: conn, api: api.NewPodResourcesListerClient(conn), uidOf: uidOf}, nil
}

// Close ends it.
func (c *Client) Close() error { return c.conn.Close() }

// Devices gives the ids of the pod's devices by resource name, each once, in an order that is the same at each call. A
// pod without devices has an empty map. While the kubelet is unavailable or busy, Devices tries again until ctx ends.
func (c *Client) Devices(ctx context.Context, pod types.NamespacedName, uid types.UID) (map[string][]string, error) {
	if err := c.check(ctx, pod, uid); err != nil {
		return nil, fmt.Errorf("asking for devices of %s: %w", pod, err)
	}
	found, err := c.ask(ctx, pod)
	if err != nil {
		return nil, fmt.Errorf("asking for devices of %s: %w", pod, err)
	}
	// Between the two questions the pod may have been replaced.
	if err := c.check(ctx, pod, uid); err != nil {
		return nil, fmt.Errorf("asking for devices of %s: %w", pod, err)
	}
	return collect(found), nil
}

func (c *Client) check(ctx context.Context, pod types.NamespacedName, uid types.UID) error {
	switch got, err := c.uidOf(ctx, pod); {
	case err != nil:
		return err
	case got != uid:
		return fmt.Errorf("%w: uid %s, not %s", ErrAnotherPod, got, uid)
	}
	return nil
}

func (c *Client) ask(ctx context.Context, pod types.NamespacedName) (*api.PodResources, error) {
	for wait := firstBackoff; ; wait = min(2*wait, lastBackoff) {
		found, err := c.askOnce(ctx, pod)
		switch code := status.Code(err); {
		case err == nil:
			return found, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: last answer: %w", ctx.Err(), err)
		case code != codes.ResourceExhausted && code != codes.Unavailable:
			return nil, err
		}
		// The kubelet refuses all waiting requests at once. A random pause spreads the next attempts.
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: last answer: %w", ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// askOnce takes List's word where Get gives none: a kubelet that does not have
// it switched on answers with the same code as for a pod that it does not know.
func (c *Client) askOnce(ctx context.Context, pod types.NamespacedName) (*api.PodResources, error) {
	one, err := c.api.Get(ctx, &api.GetPodResourcesRequest{PodName: pod.Name, PodNamespace: pod.Namespace})
	switch status.Code(err) {
	case codes.OK:
		if found := one.GetPodResources(); found.GetName() != pod.Name || found.GetNamespace() != pod.Namespace {
			return nil, fmt.Errorf("kubelet answered for %s/%s", found.GetNamespace(), found.GetName())
		}
		return one.GetPodResources(), nil
	case codes.Unknown, codes.Unimplemented, codes.NotFound:
	default:
		return nil, err
	}
	all, listErr := c.api.List(ctx, &api.ListPodResourcesRequest{})
	if listErr != nil {
		return nil, listErr
	}
	for _, p := range all.GetPodResources() {
		if p.GetName() == pod.Name && p.GetNamespace() == pod.Namespace {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
}

// collect sorts within a container only: across containers it would change the
// order that the pod's author gave them.
func collect(found *api.PodResources) map[string][]string {
	out := map[string][]string{}
	for _, container := range found.GetContainers() {
		of := map[string][]string{} // a resource comes once per NUMA node
		for _, d := range container.GetDevices() {
			of[d.GetResourceName()] = append(of[d.GetResourceName()], d.GetDeviceIds()...)
		}
		for resource, ids := range of {
			slices.Sort(ids)
			for _, id := range ids {
				if !slices.Contains(out[resource], id) {
					out[resource] = append(out[resource], id)
				}
			}
		}
	}
	return out
}
