//go:build apiserver

package apiserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
)

const (
	// scratch is a directory of each machine in which no process of the tests reads anything else.
	scratch = "/run"
	// upWithin bounds the start of everything: 7 s on an idle machine.
	upWithin = 3 * time.Minute
	// parallel tests wait for the controller more than they compute.
	parallel = "20"
)

// programs is set by the process that starts itself again in its namespaces.
var programs = flag.String("programs", "", "directory of Kubernetes' programs; the test sets it for itself")

// cluster is what all tests share.
var cluster struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	config  *rest.Config
	product *product
}

func TestMain(m *testing.M) {
	flag.Parse()
	run := enter
	if *programs != "" {
		run = func() (int, error) { return runAll(m) }
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// enter runs the same program with its arguments in namespaces of its own.
func enter() (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("these tests need root, for namespaces of their own")
	}
	for _, program := range []string{"ovsdb-server", "ovsdb-tool", "ovn-nbctl"} {
		if _, err := exec.LookPath(program); err != nil {
			return 1, fmt.Errorf("%w (Debian packages openvswitch-switch and ovn-central)", err)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	dir, err := build.DefaultDir()
	if err != nil {
		return 1, err
	}
	cache := build.Cache{Dir: dir, Repo: root, Say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	from, err := cache.Kubernetes(context.Background())
	if err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	runtime.LockOSThread() // the signal comes when this thread ends
	cmd := exec.Command(self, append([]string{"-programs=" + from, "-test.parallel=" + parallel}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	var ended *exec.ExitError
	if err := cmd.Run(); errors.As(err, &ended) {
		return max(1, ended.ExitCode()), nil
	} else if err != nil {
		return 1, fmt.Errorf("starting the tests in namespaces of their own: %w", err)
	}
	return 0, nil
}

// runAll runs the tests, in the namespaces.
func runAll(m *testing.M) (int, error) {
	if err := furnish(); err != nil {
		return 1, err
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), upWithin)
	defer cancel()
	if err := up(ctx); err != nil {
		return 1, err
	}
	fmt.Printf("control plane and controller are up after %.1fs\n", time.Since(start).Seconds())
	return m.Run(), nil
}

// furnish gives the namespaces an interface with the address of the API server, and a file system.
func furnish() error {
	if err := unix.Mount("tmpfs", scratch, "tmpfs", 0, "size=2g"); err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(apiAddress + "/32")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(lo, addr), netlink.LinkSetUp(lo))
}

// up starts the control plane, and then the product. The controller manager comes after the chart, because it looks
// every half minute which kinds there are.
func up(ctx context.Context) error {
	logs, err := filepath.Abs("../../_output/apiserver")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	p, err := newControlPlane(logs)
	if err != nil {
		return err
	}
	if err := p.startAPI(ctx); err != nil {
		return err
	}
	if err := p.installChart(ctx); err != nil {
		return fmt.Errorf("creating the objects of the chart: %w; see %s", err, p.log("kube-apiserver"))
	}
	if err := p.startControllers(); err != nil {
		return err
	}
	if err := makeNodes(ctx); err != nil {
		return fmt.Errorf("making nodes: %w; see %s", err, p.log("kube-apiserver"))
	}
	cluster.product, err = newProduct(ctx, p)
	return err
}
