package svchealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// freePort has no listener; another process may take it first.
func freePort(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	nodetest.Must(t, err)
	defer listener.Close()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

func healthService(name string, port int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.1", Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: port,
	}}
}

// TestServer_AnswerLikeKubeProxy: a load balancer reads kube-proxy's answer, whether the node
// has endpoints, and none where the service is gone or shares its traffic; a port
// that is in use delays no other.
func TestServer_AnswerLikeKubeProxy(t *testing.T) {
	web, counts := healthService("web", freePort(t)), map[types.NamespacedName]int{}
	services := []*corev1.Service{web, {Spec: corev1.ServiceSpec{HealthCheckNodePort: 1}}}
	var unready, unread error
	h := New(Deps{
		Services: func() []*corev1.Service { return services },
		Endpoints: func(_ context.Context, names []types.NamespacedName) (map[types.NamespacedName]int, error) {
			if len(names) > 2 {
				t.Errorf("endpoints of %v are asked for", names)
			}
			return counts, unread
		},
		Ready:  func() error { return unready },
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	t.Cleanup(func() {
		for _, server := range h.servers {
			server.Close()
		}
	})
	ask := func(port int32) string {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/any", port))
		if err != nil {
			return "no answer"
		}
		defer response.Body.Close()
		var body struct {
			Service             struct{ Namespace, Name string }
			LocalEndpoints      int
			ServiceProxyHealthy bool
		}
		text, err := io.ReadAll(response.Body)
		nodetest.Must(t, errors.Join(err, json.Unmarshal(text, &body)))
		return fmt.Sprint(response.StatusCode, " ", body, " weight ", response.Header.Get("X-Load-Balancing-Endpoint-Weight"))
	}
	pass := func(want string) {
		t.Helper()
		err := h.pass(t.Context())
		if want == "" {
			nodetest.Must(t, err)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	pass("")
	nodetest.Equal(t, "no endpoint", ask(web.Spec.HealthCheckNodePort), "503 {{d web} 0 true} weight 0")
	counts[types.NamespacedName{Namespace: "d", Name: "web"}] = 3
	pass("")
	nodetest.Equal(t, "three endpoints", ask(web.Spec.HealthCheckNodePort), "200 {{d web} 3 true} weight 3")
	unready, unread = errors.New("no network"), errors.New("API server away")
	pass("API server away")
	nodetest.Equal(t, "the node is not ready", ask(web.Spec.HealthCheckNodePort), "503 {{d web} 3 false} weight 3")
	unready, unread = nil, nil

	taken, err := net.Listen("tcp", ":0")
	nodetest.Must(t, err)
	defer taken.Close()
	services = []*corev1.Service{healthService("taken", int32(taken.Addr().(*net.TCPAddr).Port)), web}
	old := web.Spec.HealthCheckNodePort
	web.Spec.HealthCheckNodePort = freePort(t)
	pass("health check port of service d/taken")
	nodetest.Equal(t, "the new port", ask(web.Spec.HealthCheckNodePort), "200 {{d web} 3 true} weight 3")
	nodetest.Equal(t, "the port before it", ask(old), "no answer")
	web.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	services = services[1:]
	pass("")
	nodetest.Equal(t, "policy Cluster", ask(web.Spec.HealthCheckNodePort), "no answer")
}
