package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// measurement has a relay that runs.
type measurement struct {
	options
	control *control
	agents  *agents
	dir     string
	relay   process
	address string
	client  *http.Client
}

// startRelay waits until the relay has the objects and a summary of each node.
func (m *measurement) startRelay(ctx context.Context) error {
	cert, key := filepath.Join(m.dir, "relay.crt"), filepath.Join(m.dir, "relay.key")
	if err := m.writeCertificate(cert, key); err != nil {
		return err
	}
	program, err := filepath.Abs(m.program("ovn-offload-relay"))
	if err != nil {
		return err
	}
	m.address = freeAddress()
	m.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it has no authority
	began := time.Now()
	m.relay, err = start(m.dir, program, "--kubeconfig="+m.control.kubeconfig, "--cert="+cert, "--key="+key, "--listen-address="+m.address, "--metrics-address="+freeAddress())
	if err != nil {
		return err
	}
	err = eventually(ctx, "the relay has read the objects", func() error { _, err := m.get(ctx, "/readyz"); return err })
	if err != nil {
		return err
	}
	read := time.Since(began)
	err = eventually(ctx, "the relay has a summary of each node", func() error {
		if n := m.agents.summaries.Load(); n < int64(m.nodes) {
			return fmt.Errorf("%d of %d", n, m.nodes)
		}
		return nil
	})
	fmt.Printf("The relay had read the objects after %.1f s, and a summary of each of %d nodes after %.1f s.\n\n", read.Seconds(), m.nodes, time.Since(began).Seconds())
	return err
}

// writeCertificate uses that of the agents, which do not look at it.
func (m *measurement) writeCertificate(cert, key string) error {
	der, err := x509.MarshalPKCS8PrivateKey(m.agents.certificate.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.agents.certificate.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	)
}

// get asks the relay as an administrator.
func (m *measurement) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.address+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	answer, err := m.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, body)
	}
	return body, err
}

func (m *measurement) all(ctx context.Context) error {
	fmt.Println("| the relay | RSS MB | not file-backed MB | cores | questions to agents a second |")
	fmt.Println("|---|---|---|---|---|")
	if err := m.load("without viewers", m.rest, func(context.Context) error { return nil }); err != nil {
		return err
	}
	err := m.load(fmt.Sprintf("%d viewers of one node's flows", m.viewers), 30*time.Second, func(ctx context.Context) error {
		return m.look(ctx, "/api/v1/stream/flows?node="+nodeName(0))
	})
	if err != nil {
		return err
	}
	err = m.load(fmt.Sprintf("%d viewers of all nodes", m.viewers), 30*time.Second, func(ctx context.Context) error {
		return m.look(ctx, "/api/v1/stream/overview")
	})
	if err != nil {
		return err
	}
	fmt.Println("\n| what | median s | slowest s | requests to the API server |")
	fmt.Println("|---|---|---|---|")
	return m.times(ctx)
}

// load measures the relay while something goes on.
func (m *measurement) load(what string, span time.Duration, act func(context.Context) error) error {
	progress("%s, %s", what, span)
	before, err := usage(m.relay.Process.Pid)
	if err != nil {
		return err
	}
	flows, asked := m.agents.flows.Load(), m.agents.summaries.Load()
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	if err := act(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	after, err := usage(m.relay.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.0f | %.0f | %.3f | %.1f summaries, %.2f dumps |\n", what, float64(after.resident)/1e6, float64(after.anonymous)/1e6,
		(after.cpu-before.cpu).Seconds()/span.Seconds(), float64(m.agents.summaries.Load()-asked)/span.Seconds(), float64(m.agents.flows.Load()-flows)/span.Seconds())
	return nil
}

// look keeps a view open for each viewer until ctx ends.
func (m *measurement) look(ctx context.Context, path string) error {
	var group errgroup.Group
	began := time.Now()
	for range m.viewers {
		group.Go(func() error {
			if body, err := m.get(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("a stream has ended after %s: %w: %s", time.Since(began), err, body)
			}
			return nil
		})
	}
	return group.Wait()
}

func (m *measurement) times(ctx context.Context) error {
	plugin := func(args ...string) func() error {
		return func() error {
			cmd := exec.CommandContext(ctx, m.program("kubectl-offload"), append(args, "--kubeconfig="+m.control.kubeconfig)...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > 2 {
				return fmt.Errorf("%s: %w: %s", cmd, err, out.String())
			}
			return nil
		}
	}
	view := func(path string) func() error {
		return func() error { _, err := m.get(ctx, "/api/v1/views/"+path); return err }
	}
	pod := podName(nodeName(0), 1)
	for _, what := range []struct {
		title string
		do    func() error
	}{
		{"`kubectl offload status`", plugin("status")},
		{"`kubectl offload explain pod/...`", plugin("explain", "pod/"+pod, "-n", namespace)},
		{"`kubectl offload explain node/...`", plugin("explain", "node/"+nodeName(7))},
		{"`kubectl offload explain --worst 10`", plugin("explain", "--worst", "10")},
		{"page: overview", view("overview")},
		{"page: pod, with its flows", view("pod?name=" + namespace + "/" + pod)},
		{"page: traffic of all pods", view("traffic")},
	} {
		if err := m.repeat(ctx, what.title, what.do); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) repeat(ctx context.Context, title string, do func() error) error {
	before, err := m.requests(ctx)
	if err != nil {
		return err
	}
	var took []time.Duration
	for range m.repeats {
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	after, err := m.requests(ctx)
	if err != nil {
		return err
	}
	slices.Sort(took)
	fmt.Printf("| %s | %.2f | %.2f | %.1f |\n", title, took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), float64(after-before)/float64(len(took)))
	return nil
}

var requestCount = regexp.MustCompile(`(?m)^apiserver_request_total\{.*verb="(GET|LIST|POST)".*\} (\d+)$`)

// requests are those for objects that the API server has answered.
func (m *measurement) requests(ctx context.Context) (n int, err error) {
	client, err := kubernetes.NewForConfig(m.control.config)
	if err != nil {
		return 0, err
	}
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	for _, match := range requestCount.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(match[0], `,resource=""`) && !strings.Contains(match[0], `,resource="leases"`) {
			count, _ := strconv.Atoi(match[2]) // digits
			n += count
		}
	}
	return n, err
}

// used is what a process has and has used.
type used struct {
	resident, anonymous uint64 // bytes
	cpu                 time.Duration
}

func usage(pid int) (used, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return used{}, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return used{}, err
	}
	status, err := proc.NewStatus()
	if err != nil {
		return used{}, err
	}
	return used{status.VmRSS, status.RssAnon, time.Duration(stat.CPUTime() * float64(time.Second))}, nil
}
