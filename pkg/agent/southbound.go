package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

const (
	// ovnControl is where the image's ovn-controller takes commands.
	ovnControl = "/run/ovn/ovn-controller.ctl"
	// southboundEvery is the interval at which ovn-controller is asked, which reports no change of its connection.
	southboundEvery = 5 * time.Second
	// southboundWithin bounds the question to one endpoint.
	southboundWithin = 3 * time.Second
)

// southbound says why this node learns nothing new: ovn-controller has no connection to the Southbound database.
// Running pods go on.
type southbound struct {
	status func(ctx context.Context) (string, error) // of ovn-controller's connection
	check  func(ctx context.Context) error           // the reasons of the endpoints
	log    *slog.Logger

	lost    bool // at the last question
	problem atomic.Pointer[string]
}

func newSouthbound(cfg Config) *southbound {
	control := unixctl.Client{Daemon: "ovn-controller", Socket: ovnControl}
	remote := ovsdb.Config{
		Endpoints: strings.Split(cfg.Node.Remote, ","), ConnectTimeout: southboundWithin,
		TLS: func() (*tls.Config, error) { return chassisTLS(cfg.Chassis.Dir) },
	}
	return &southbound{
		status: func(ctx context.Context) (string, error) { return control.Call(ctx, "connection-status") },
		check:  func(ctx context.Context) error { return ovsdb.Check(ctx, remote, "OVN_Southbound") },
		log:    cfg.Logger,
	}
}

func chassisTLS(dir string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, err
	}
	authorities, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

// Ready is an error while there is no connection.
func (s *southbound) Ready() error {
	if problem := s.problem.Load(); problem != nil {
		return fmt.Errorf("the Southbound is %s", *problem)
	}
	return nil
}

// Run asks until ctx ends.
func (s *southbound) Run(ctx context.Context) error {
	ticker := time.NewTicker(southboundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			s.look(ctx)
		}
	}
}

// look believes in a loss at the second question: a change of the relay takes a moment. An ovn-controller that does not
// answer is not our matter; its container has probes.
func (s *southbound) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, southboundWithin)
	status, err := s.status(asking)
	cancel()
	lost := err == nil && strings.TrimSpace(status) == "not connected"
	switch {
	case lost && s.lost:
		problem := "not connected"
		if err := s.check(ctx); err != nil {
			problem += ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if before := s.problem.Swap(&problem); before == nil || *before != problem {
			s.log.Warn("new pods and policies wait: ovn-controller has no connection to the Southbound database", "error", problem)
		}
	case !lost && s.problem.Swap(nil) != nil:
		s.log.Info("ovn-controller is connected to the Southbound database again")
	}
	s.lost = lost
}
