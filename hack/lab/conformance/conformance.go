package conformance

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/hack/lab/cluster"
)

//go:embed skip.yaml
var skipList []byte

// Config is one run.
type Config struct {
	Lab    *cluster.Lab
	Focus  string // a regular expression; empty: all tests of the network
	Procs  int    // tests at once
	Within time.Duration
	Out    io.Writer
}

// Run makes what the tests need, runs them, and prints a table. Its error is nil if each test that ran has passed.
func Run(ctx context.Context, cfg Config) error {
	list, err := parseSkips(skipList)
	if err != nil {
		return err
	}
	lab := cfg.Lab.Config()
	datapath, err := datapathOf(ctx, cfg.Lab)
	if err != nil {
		return err
	}
	list = list.of(lab.Families, datapath)
	dir := filepath.Join(lab.Workdir, "conformance")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	programs, err := cfg.Lab.Cache().Conformance(ctx)
	if err != nil {
		return err
	}
	images := filepath.Join(dir, "images.tar")
	if err := cfg.Lab.Cache().ConformanceImages(ctx, programs, filepath.Join(lab.Workdir, "bin/pause"), images); err != nil {
		return err
	}
	if err := cfg.Lab.Load(ctx, images); err != nil {
		return err
	}
	if err := zones(ctx, cfg.Lab); err != nil {
		return err
	}
	start := time.Now()
	specs, err := cfg.ginkgo(ctx, programs, dir, list)
	if err != nil {
		return err
	}
	t := newTable(specs, list)
	if err := t.write(cfg.Out, time.Since(start)); err != nil {
		return err
	}
	if unused := t.unusedLines(); cfg.Focus == "" && len(unused) > 0 {
		return fmt.Errorf("skip.yaml has lines that are about no test: %q", unused)
	}
	if t.failed > 0 {
		return fmt.Errorf("%d tests failed; their logs are in %s", t.failed, filepath.Join(dir, logName))
	}
	if t.passed == 0 {
		return errors.New("no test ran")
	}
	return nil
}

// datapathOf is userspace, or "" where OVS has the kernel's.
func datapathOf(ctx context.Context, lab *cluster.Lab) (string, error) {
	cfg := lab.Config()
	out, err := lab.Exec(ctx, cfg.NodeNames()[0], "ovs-vsctl", "get", "bridge", "br-int", "datapath_type")
	if err != nil || !strings.Contains(out, "netdev") {
		return "", err
	}
	return userspace, nil
}

// zones gives the nodes three zones in turns, which some tests need. Kubernetes leaves the zone of a control plane
// out of hints, so its zone needs another node: the fourth.
func zones(ctx context.Context, lab *cluster.Lab) error {
	client, err := lab.Client()
	if err != nil {
		return err
	}
	cfg := lab.Config()
	for i, node := range cfg.NodeNames() {
		patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "zone-%d"}}}`, corev1.LabelTopologyZone, i%3)
		if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("giving %s a zone: %w", node, err)
		}
	}
	return nil
}

const (
	logName    = "log"
	reportName = "report.json"
)

// ginkgo runs the tests and reads the report. Tests that fail are no error of its own.
func (c Config) ginkgo(ctx context.Context, programs, dir string, list skips) ([]spec, error) {
	report := filepath.Join(dir, reportName)
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, logName))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{"--no-color", "--silence-skips", "--procs=" + strconv.Itoa(c.Procs), "--timeout=" + c.Within.String(),
		"--label-filter=sig-network", "--output-dir=" + dir, "--json-report=" + reportName}
	if c.Focus != "" {
		args = append(args, "--focus="+c.Focus)
	}
	for _, line := range list {
		args = append(args, "--skip="+line.Test)
	}
	lab := c.Lab.Config()
	args = append(args, filepath.Join(programs, "network.test"), "--", "--provider=skeleton",
		"--num-nodes="+strconv.Itoa(len(lab.NodeNames())), "--kubeconfig="+c.Lab.Kubeconfig(), "--kubectl-path="+filepath.Join(lab.Repo, "_output/bin/kubectl"),
		"--e2e-output-dir="+dir, "--dump-logs-on-failure=false")
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "ginkgo"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	ran := cmd.Run()
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("running the tests (%s has the log): %w", log.Name(), errors.Join(ran, err))
	}
	return parseReport(data)
}

// spec is one test in ginkgo's report.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	LeafNodeType            string // It, or what runs before and after all
	State                   string // passed, skipped, pending, or a kind of failure
	RunTime                 time.Duration
	Failure                 struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
	ContainerHierarchyLabels [][]string
	LeafNodeLabels           []string
}

// parseReport gives the specs of ginkgo's JSON report (types.Report of ginkgo v2).
func parseReport(data []byte) ([]spec, error) {
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("reading ginkgo's report: %w", err)
	}
	var specs []spec
	for _, suite := range suites {
		specs = append(specs, suite.SpecReports...)
	}
	return specs, nil
}
