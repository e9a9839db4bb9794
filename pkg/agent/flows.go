package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/nodeflows"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// flowServer serves flowapi to the root of this node at a socket, and over TLS to the relay.
type flowServer struct {
	*ovs
	certificate tls.Certificate
}

// openFlows makes the certificate, whose fingerprint is in the NodeOffload: the relay knows the agent by it.
func (o *ovs) openFlows() (err error) {
	o.flows = &flowServer{ovs: o}
	o.flows.certificate, err = expose.SelfSigned()
	return err
}

// endpoint is where the relay finds the agent; nil: nowhere.
func (s *flowServer) endpoint() *v1alpha1.AgentEndpoint {
	_, port, err := net.SplitHostPort(s.Metrics.Flows.Address)
	host, _, _ := strings.Cut(setting(s.db, "ovn-encap-ip"), ",")
	if err != nil || host == "" {
		return nil
	}
	return &v1alpha1.AgentEndpoint{Address: net.JoinHostPort(host, port), Fingerprint: expose.Fingerprint(s.certificate)}
}

// run serves until ctx ends. The network does not depend on it: an error is logged.
func (s *flowServer) run(ctx context.Context) error {
	source := nodeflows.New(nodeflows.Config{
		Node: s.Node.Node, Switch: vswitchd(s.Config), State: s.sampling.State, Newest: s.sampling.Newest, Logger: s.Logger,
		Counters: s.netns.Counters, Rules: func(port string) ([]tcrule.Rule, error) { return tcrule.Of(s.netns, port) },
	})
	source.Register(s.metrics)
	handler := flowapi.Handler(source)
	for _, serve := range []func() error{
		func() error { return s.serveSocket(ctx, handler) },
		func() error { return s.serveTLS(ctx, handler) },
	} {
		go func() {
			if err := serve(); err != nil && ctx.Err() == nil {
				s.Logger.Warn("flows are not served", "error", err)
			}
		}()
	}
	<-ctx.Done()
	return ctx.Err()
}

// serveSocket is for the node's root, as the sockets of Open vSwitch are.
func (s *flowServer) serveSocket(ctx context.Context, handler http.Handler) error {
	if s.Metrics.Flows.Socket == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.Metrics.Flows.Socket), 0o700); err != nil {
		return err
	}
	if err := os.Remove(s.Metrics.Flows.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", s.Metrics.Flows.Socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(s.Metrics.Flows.Socket, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	return expose.Serve(ctx, listener, handler, s.Logger)
}

func (s *flowServer) serveTLS(ctx context.Context, handler http.Handler) error {
	if s.Metrics.Flows.Address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Metrics.Flows.Address)
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{s.certificate}, ClientAuth: tls.RequestClientCert}
	relay := func(state *tls.ConnectionState) bool {
		return s.chassis != nil && isRelay(state, s.chassis.Authorities())
	}
	return expose.Serve(ctx, tls.NewListener(listener, config), guardFlows(handler, relay, s.client.May), s.Logger)
}

// guardFlows lets the relay pass by its certificate, and others by a token whose account may list the flows of all
// pods.
func guardFlows(handler http.Handler, relay func(*tls.ConnectionState) bool,
	may func(ctx context.Context, token string, what authorizationv1.ResourceAttributes) (bool, error),
) http.Handler {
	tokens := expose.NewGuard(handler, "list podflows of ovn-offload.io in all namespaces", func(ctx context.Context, token string) (bool, error) {
		return may(ctx, token, authorizationv1.ResourceAttributes{Verb: "list", Group: v1alpha1.Group, Resource: "podflows"})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if relay(r.TLS) {
			handler.ServeHTTP(w, r)
			return
		}
		tokens.ServeHTTP(w, r)
	})
}

// isRelay says whether the caller has the relay's certificate, from one of the authorities in PEM.
func isRelay(state *tls.ConnectionState, authorities []byte) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	peer, roots := state.PeerCertificates[0], x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	_, err := peer.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil && slices.Equal(peer.Subject.Organization, []string{pki.RelayOrganization})
}
