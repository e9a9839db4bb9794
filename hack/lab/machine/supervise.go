package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	servicesName = "services.json"
	configDir    = "/etc/kubernetes"
	servicesFile = configDir + "/" + servicesName
	maxBackoff   = 5 * time.Second
)

// Service is a process that the init keeps running; its output goes to /var/log/<Name>.log.
type Service struct {
	Name string
	Args []string
}

// SetServices writes the Services file; a running init reads it on Reload.
func (s Spec) SetServices(services []Service) error {
	encoded, err := json.MarshalIndent(services, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.Config(), servicesName)
	if err := os.WriteFile(path+".new", encoded, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

type running struct {
	service Service
	pid     int // 0: waits to be started again
	started time.Time
	backoff time.Duration
}

type supervisor struct {
	logs     string
	signals  chan os.Signal
	mu       sync.Mutex
	services map[string]*running
}

// newSupervisor takes the signals of the process from now on. A SIGHUP before would end the process.
func newSupervisor(logs string) *supervisor {
	s := &supervisor{logs: logs, signals: make(chan os.Signal, 16), services: map[string]*running{}}
	signal.Notify(s.signals, syscall.SIGCHLD, syscall.SIGHUP)
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	return s
}

// run starts services and reaps every process of the machine, for ever.
func (s *supervisor) run(file string) error {
	s.read(file)
	for got := range s.signals {
		if got == syscall.SIGHUP {
			s.read(file)
			continue
		}
		s.reap()
	}
	return nil
}

// read starts what the file names and does not run yet; a machine without a file has no services.
func (s *supervisor) read(file string) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var services []Service
	if err == nil {
		err = json.Unmarshal(data, &services)
	}
	if err != nil {
		slog.Error("reading services", "err", err)
		return
	}
	for _, service := range services {
		s.want(service)
	}
}

// want starts the service if it is new.
func (s *supervisor) want(service Service) {
	s.mu.Lock()
	known := s.services[service.Name]
	if known == nil {
		s.services[service.Name] = &running{service: service}
	} else {
		known.service = service
	}
	s.mu.Unlock()
	if known == nil {
		s.start(service.Name)
	}
}

func (s *supervisor) start(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.services[name]
	r.started = time.Now()
	process, err := s.exec(r.service)
	if err != nil {
		slog.Error("starting service", "service", name, "err", err)
		s.again(r)
		return
	}
	r.pid = process.Pid
	slog.Info("service started", "service", name, "pid", r.pid)
	if err := process.Release(); err != nil { // reap waits for it
		slog.Error("releasing service", "service", name, "err", err)
	}
}

func (s *supervisor) exec(service Service) (*os.Process, error) {
	path, err := exec.LookPath(service.Args[0])
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(s.logs, service.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	return os.StartProcess(path, service.Args, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=" + Path, "HOME=/root"},
		Files: []*os.File{null, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// reap collects every ended process: those of services are started again.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		s.ended(pid, status)
	}
}

func (s *supervisor) ended(pid int, status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, r := range s.services {
		if r.pid == pid {
			slog.Info("service ended", "service", name, "pid", pid, "status", status.ExitStatus(), "signal", status.Signal().String())
			s.again(r)
		}
	}
}

// again starts the service soon: at once when it had run for a while, slower and slower otherwise.
func (s *supervisor) again(r *running) {
	r.pid = 0
	if time.Since(r.started) > 2*maxBackoff {
		r.backoff = 0
	}
	time.AfterFunc(r.backoff, func() { s.start(r.service.Name) })
	r.backoff = min(max(2*r.backoff, 200*time.Millisecond), maxBackoff)
}

// forward accepts on an inherited listener, whose socket lives in the network
// namespace of who made it, and connects to target from the machine's own. So the
// host's shell reaches the API server, and no link touches the host's network.
func forward(file *os.File, target string) error {
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("taking over the listener for %s: %w", target, err)
	}
	file.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				slog.Error("accepting", "target", target, "err", err)
				return
			}
			go relay(conn, target)
		}
	}()
	return nil
}

func relay(conn net.Conn, target string) {
	defer conn.Close()
	upstream, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return // the client sees the connection close
	}
	defer upstream.Close()
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
		done <- struct{}{}
	}
	go pipe(upstream, conn)
	go pipe(conn, upstream)
	<-done
	<-done
}
