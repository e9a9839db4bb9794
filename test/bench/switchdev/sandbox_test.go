//go:build bench

package switchdev

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
)

// sandbox is a pod of namespace default as the runtime has it; its UID is
// uid-NAME.
type sandbox struct {
	*testing.T
	socket   string // of the CNI server
	name, ns string
	id       string
}

// call is what the runtime does: it runs the plugin, which asks the server.
func (s *sandbox) call(command string) ([]byte, time.Duration, *cnitypes.Error) {
	start := time.Now()
	out, err := shim.Call(context.Background(), s.socket, s.request(command))
	return out, time.Since(start), err
}

func (s *sandbox) request(command string) shim.Request {
	return shim.Request{
		Command: command, ContainerID: s.id, Netns: "/run/netns/" + s.ns, IfName: "eth0",
		Args:   "K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + s.name + ";K8S_POD_UID=uid-" + s.name,
		Config: json.RawMessage(`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay"}`),
	}
}

func (s *sandbox) must(command string) time.Duration {
	s.Helper()
	out, took, err := s.call(command)
	if err != nil {
		s.Fatalf("%s of %s: %v %s", command, s.name, err, out)
	}
	return took
}

// kubelet says which VFs a pod was given.
type kubelet struct {
	mu    sync.Mutex
	given map[string][]string // by pod
}

func (k *kubelet) give(pod string, devices ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.given == nil {
		k.given = map[string][]string{}
	}
	k.given[pod] = devices
}

func (k *kubelet) devicesOf(_ context.Context, pod types.NamespacedName, _ types.UID) (map[string][]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return map[string][]string{"ovn-offload.io/vf": k.given[pod.Name]}, nil
}
