package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/reroute"
	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const (
	// answerMargin is what is left of the runtime's deadline for the way back.
	answerMargin = 3 * time.Second
	// fullSweep is the pause between sweeps without an event.
	fullSweep = time.Hour
	// sweepRetry is the pause after a sweep that failed; it doubles up to mostRetry
	// while sweeps fail.
	sweepRetry = 5 * time.Second
	mostRetry  = time.Minute
)

// multusVersion is the newest one of results that Multus 4.2 can read again, as it does for default-route.
const multusVersion = "1.0.0"

// Server answers the CNI plugin.
type Server struct {
	cfg      Config
	deps     Deps
	log      *slog.Logger
	metrics  *metrics
	commands *commands
	listener net.Listener
	dirty    chan struct{} // a sweep is due
	backoff  backoff
	routes   *reroute.Routes
}

// NewServer neither listens nor touches anything yet.
func NewServer(cfg Config, deps Deps, log *slog.Logger, reg prometheus.Registerer) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, deps: deps, log: log, metrics: newMetrics(reg),
		commands: newCommands(), dirty: make(chan struct{}, 1), backoff: backoff{of: map[claimKey]retry{}},
	}
	s.routes = reroute.New(reroute.Deps{
		Pod: deps.Pods.lookup, Plugged: deps.Plugger.Plugged, Netns: s.deps.netnsOf, Busy: s.commands.busy,
		OpenNS: func(path string) (reroute.Netns, error) { return deps.OpenNS(path) },
	}, log, reg)
	if s.deps.Stage == nil {
		s.deps.Stage = s.metrics.stage
	}
	return s, nil
}

// Routes are those of the node's pods.
func (s *Server) Routes() *reroute.Routes { return s.routes }

// Listen takes the socket. Commands wait in its queue until Run.
func (s *Server) Listen() error {
	l, err := listen(s.cfg.Socket)
	if err != nil {
		return err
	}
	s.listener = l
	return nil
}

// Repair asks for a sweep soon; hook it to the database's reconnect.
func (s *Server) Repair() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// Run answers commands until ctx ends, which also ends waiting ADDs and rolls
// them back. RunSweeps belongs with it.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: answerMargin,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = srv.Shutdown(bounded)
	}()
	err := srv.Serve(s.listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving CNI: %w", err)
	}
	<-stopped
	return nil
}

// RunSweeps sweeps at its start, when asked to, and every hour, until ctx ends.
// The pods' informer must have its full list; a node that is set up is not needed,
// for what pods have left that are gone.
func (s *Server) RunSweeps(ctx context.Context) error {
	s.Repair()
	pause := time.NewTimer(fullSweep)
	defer pause.Stop()
	failure, retry := "", time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.dirty:
		case <-pause.C:
		}
		err := s.Sweep(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failure = s.swept(failure, err)
		next := fullSweep
		if retry = min(max(sweepRetry, 2*retry), mostRetry); err != nil {
			next = retry
		} else {
			retry = 0
		}
		pause.Reset(next)
	}
}

// swept logs how a sweep ended, unless the one before ended the same way: what
// holds a pod's namespace open may do so for days.
func (s *Server) swept(before string, err error) (failure string) {
	switch {
	case err == nil && before != "":
		s.log.Info("the sweep of stale attachments succeeded again")
	case err != nil && err.Error() != before:
		s.log.Warn("sweep of stale attachments, tried again until it succeeds", "error", err)
	}
	if err != nil {
		failure = err.Error()
	}
	return failure
}

// ServeHTTP is one command.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	var req *Request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, shim.MaxBody))
	if err != nil {
		err = fail(types.ErrIOFailure, "reading the request: %v", err)
	} else {
		req, err = parse(body)
	}
	if req == nil {
		req = &Request{Command: "unknown"}
	}
	var out []byte
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), shim.Deadline-answerMargin)
		defer cancel()
		out, err = s.do(ctx, req)
	}
	s.done(req, err, time.Since(start))
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		out, _ = json.Marshal(asCNI(err))
	}
	_, _ = w.Write(out)
}

// done reports one command: the only place that logs its error.
func (s *Server) done(r *Request, err error, took time.Duration) {
	s.metrics.command(r.Command, err, took)
	args := []any{"command", r.Command, "owner", r.Pod.String(), "sandbox", r.Sandbox, "took", took}
	switch {
	case err != nil:
		s.log.Warn("CNI command", append(args, "error", err)...)
	case r.Command == "ADD" || r.Command == "DEL":
		s.log.Info("CNI command", args...)
	default:
		s.log.Debug("CNI command", args...)
	}
}

func (s *Server) do(ctx context.Context, r *Request) ([]byte, error) {
	switch r.Command {
	case "ADD":
		return s.add(ctx, r)
	case "DEL":
		return nil, s.del(ctx, r)
	case "CHECK":
		release, err := s.commands.acquire(ctx, r.Pod)
		if err != nil {
			return nil, err
		}
		defer release()
		return nil, Check(s.deps, r)
	case "GC":
		return nil, s.gc(ctx, r.Conf)
	default: // STATUS; parse lets nothing else pass
		return nil, s.status()
	}
}

func (s *Server) add(ctx context.Context, r *Request) ([]byte, error) {
	if err := s.status(); err != nil {
		return nil, types.NewError(types.ErrTryAgainLater, asCNI(err).Msg, "")
	}
	ctx, end := s.commands.begin(ctx, r)
	defer func() { end(); s.routes.Changed(r.Pod) }()
	release, err := s.commands.acquire(ctx, r.Pod)
	if err != nil {
		return nil, err
	}
	defer release()
	result, err := Attach(ctx, s.deps, s.cfg, r)
	if err != nil {
		s.Repair() // in case undoing failed as well
		return nil, err
	}
	version := r.Conf.CNIVersion
	if pod := s.deps.Pods.get(r.Pod); pod != nil && !s.cfg.Native && contract.AsksForNetworks(pod) && version == types100.ImplementedSpecVersion {
		version = multusVersion
	}
	return encode(result, version)
}

// del succeeds even when something could not be removed: the sweep that it asks
// for tries until it can.
func (s *Server) del(ctx context.Context, r *Request) error {
	s.commands.end(r.Sandbox)
	if p, ok, _ := plug.BySandbox(s.deps.Plugger, r.Sandbox); ok {
		r.Pod = p.Pod.On("")
	} else if claim, ok := s.claimOf(r); ok {
		r.Pod = owner(claim).On("")
	}
	release, err := s.commands.acquire(ctx, r.Pod)
	if err != nil {
		return err
	}
	defer release()
	if err := Detach(ctx, s.deps, r); err != nil {
		s.log.Warn("detaching, left to the sweep", "owner", r.Pod.String(), "sandbox", r.Sandbox, "error", err)
		s.Repair()
	}
	return nil
}

func (s *Server) status() error {
	if s.deps.Ready == nil {
		return nil
	}
	if err := s.deps.Ready(); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
	}
	return nil
}
