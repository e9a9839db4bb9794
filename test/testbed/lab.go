package testbed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

// Lab is a lab of hack/lab, by its command.
type Lab struct {
	Root string // of the repository
	Name string
}

var _ Cluster = Lab{}

// Workdir has the lab's state and logs.
func (l Lab) Workdir() string { return filepath.Join(l.Root, "_output", l.Name) }

// Binary is the lab's command.
func (l Lab) Binary() string { return filepath.Join(l.Root, "_output/bin/lab") }

// Command runs a verb of the lab's own.
func (l Lab) Command(out io.Writer, verb string, args ...string) error {
	all := append([]string{verb, "--name=" + l.Name, "--workdir=" + l.Workdir()}, args...)
	cmd := exec.Command(l.Binary(), all...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.Root, out, out
	return cmd.Run()
}

// Run takes the lab's other machines, too.
func (l Lab) Run(out io.Writer, node string, command ...string) error {
	m, err := l.machine(node)
	if err != nil {
		return err
	}
	return l.run(m.Command(context.Background(), command...), out, out)
}

// Container is one of containerd on a node.
type Container struct{ Node, ID string }

// RunInContainer runs a command as root in the namespaces of a container. It takes a small part of the processor time of an exec
// by the API server, the kubelet and containerd.
func (l Lab) RunInContainer(ctx context.Context, in Container, command []string, out, errs io.Writer) error {
	m, err := l.machine(in.Node)
	if err != nil {
		return err
	}
	file := "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + in.ID + "/init.pid"
	var pid []byte
	if m.VM {
		pid, err = m.Command(ctx, "cat", file).Output()
	} else {
		pid, err = os.ReadFile(fmt.Sprintf("/proc/%d/root%s", m.PID, file))
	}
	if err != nil {
		return fmt.Errorf("container %s on %s: %w", in.ID, in.Node, err)
	}
	return l.run(m.Command(ctx, machine.Enter(strings.TrimSpace(string(pid)), command...)...), out, errs)
}

// machines are those found before, by lab and name: looking for one reads the environment of all processes.
var machines sync.Map

func (l Lab) machine(name string) (*machine.Machine, error) {
	key := l.Name + " " + name
	if known, ok := machines.Load(key); ok && known.(*machine.Machine).Runs() {
		return known.(*machine.Machine), nil
	}
	m, err := machine.Find(l.Name, name)
	if err == nil && m == nil {
		err = fmt.Errorf("%s does not run in lab %q", name, l.Name)
	}
	if err == nil {
		machines.Store(key, m)
	}
	return m, err
}

// outputWithin is how long a command's output may take after the command's end: seconds on a busy machine. A process that
// goes on and keeps the output open is an error.
const outputWithin = 20 * time.Second

func (l Lab) run(cmd *exec.Cmd, out, errs io.Writer) error {
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = l.Root, out, errs, outputWithin
	return cmd.Run()
}

// RunExternal uses the lab's machine for that.
func (l Lab) RunExternal(out io.Writer, command ...string) error {
	return l.Run(out, External, command...)
}

// Restart knows the components that `lab restart --help` lists.
func (l Lab) Restart(component string) error { return l.quiet("restart", component) }

// Load takes a tar file as `lab load` does.
func (l Lab) Load(image string) error { return l.quiet("load", image) }

// PowerOff ends a node at once, as when its power is cut. Its disk stays.
func (l Lab) PowerOff(node string) error { return l.quiet("power-off", node) }

// PowerOn boots a node that is off with its disk.
func (l Lab) PowerOn(node string) error { return l.quiet("power-on", node) }

// Erase empties the disk of a node that is off, or a directory of the disk.
func (l Lab) Erase(node string, directory ...string) error {
	return l.quiet("erase", append([]string{node}, directory...)...)
}

func (l Lab) quiet(verb string, arguments ...string) error {
	var out bytes.Buffer
	if err := l.Command(&out, verb, arguments...); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	return nil
}

// Kubectl is that of the lab's Kubernetes version.
func (l Lab) Kubectl() (program, config string) {
	return filepath.Join(l.Root, "_output/bin/kubectl"), filepath.Join(l.Workdir(), "kubeconfig")
}
