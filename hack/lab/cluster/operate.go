package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

const restartWithin = 2 * time.Minute

// Machine finds a running node, or Outside.
func (l *Lab) Machine(name string) (*machine.Machine, error) { return l.find(name) }

// Exec runs a command in the namespaces of a node or of Outside and gives its standard output.
func (l *Lab) Exec(ctx context.Context, name string, command ...string) (string, error) {
	m, err := l.find(name)
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	cmd := m.Command(ctx, command...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running %s on %s: %w: %s", command[0], name, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

// component is a process by the base name of its program; argument tells apart
// those that have the same.
type component struct {
	program, argument string
	perNode           bool
}

func components() map[string]component {
	return map[string]component{
		"etcd":                    {program: "etcd"},
		"kube-apiserver":          {program: "kube-apiserver"},
		"kube-controller-manager": {program: "kube-controller-manager"},
		"kube-scheduler":          {program: "kube-scheduler"},
		"controller":              {program: "ovn-offload-controller", argument: "--lease-namespace"},
		"identity":                {program: "ovn-offload-controller", argument: "certs"},
		"northd":                  {program: "ovn-northd"},
		"nb":                      {program: "ovsdb-server", argument: "ovnnb_db"},
		"sb":                      {program: "ovsdb-server", argument: "ovnsb_db"},
		"relay":                   {program: "ovsdb-server", argument: "ovnsb_relay"},
		"kubelet":                 {program: "kubelet", perNode: true},
		"containerd":              {program: "containerd", perNode: true},
		"agent":                   {program: "ovn-offload-agent", perNode: true},
		"ovn-controller":          {program: "ovn-controller", perNode: true},
		"ovs-vswitchd":            {program: "ovs-vswitchd", perNode: true},
	}
}

// Components are the names that Restart takes.
func Components() []string {
	var names []string
	for name, c := range components() {
		if c.perNode {
			name += "@NODE"
		} else {
			name += "[@NODE]"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c component) is(p machine.Process) bool {
	if filepath.Base(p.Args[0]) != c.program {
		return false
	}
	return c.argument == "" || strings.Contains(strings.Join(p.Args[1:], " "), c.argument)
}

// Restart kills a component with SIGKILL and returns when what keeps it running (a machine's init, or kubelet) has
// started it again. Of a component that is not on every node, a name without a node means all of them at once.
func (l *Lab) Restart(ctx context.Context, name string) error {
	kind, node, onNode := strings.Cut(name, "@")
	c, known := components()[kind]
	if !known || c.perNode && !onNode {
		return fmt.Errorf("no component %q; there are %s", name, strings.Join(Components(), ", "))
	}
	names := l.cfg.NodeNames()
	if onNode {
		if _, err := l.find(node); err != nil {
			return err
		}
		names = []string{node}
	}
	machines, err := l.running(names)
	if err != nil {
		return err
	}
	old, err := processes(machines, c)
	if err != nil {
		return err
	}
	if len(old) == 0 {
		return fmt.Errorf("%s does not run", name)
	}
	for _, p := range old {
		if err := p.Kill(ctx); err != nil {
			return fmt.Errorf("killing %s: %w", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience(restartWithin))
	defer cancel()
	if err := replaced(ctx, machines, c, old); err != nil {
		return fmt.Errorf("waiting for %s to run again: %w", name, err)
	}
	if kind != "etcd" && kind != "kube-apiserver" {
		return nil
	}
	return l.apisReady(ctx, old)
}

// apisReady waits for the API servers of the machines where a process was killed, and for the way to one of them.
func (l *Lab) apisReady(ctx context.Context, killed []machine.Process) error {
	for _, p := range killed {
		url := "https://" + l.cfg.endpoint(p.Machine(), apiPort).String() + "/readyz"
		if err := poll(ctx, runEvery, func() error {
			_, err := l.Exec(ctx, p.Machine(), "curl", "-sSf", "--max-time", "5", "--cacert", etc+"ca.crt", url)
			return err
		}); err != nil {
			return fmt.Errorf("waiting for the API server of %s: %w", p.Machine(), err)
		}
	}
	client, err := l.Client()
	if err != nil {
		return err
	}
	return l.apiReady(ctx, client)
}

// replaced waits until each machine of the old processes has one that is none of them. The kernel notifies only parents
// of a process.
func replaced(ctx context.Context, machines []*machine.Machine, c component, old []machine.Process) error {
	machines = slices.DeleteFunc(slices.Clone(machines), func(m *machine.Machine) bool {
		return !slices.ContainsFunc(old, func(p machine.Process) bool { return p.Machine() == m.Name })
	})
	every := lookEvery
	if slices.ContainsFunc(machines, func(m *machine.Machine) bool { return m.VM }) {
		every = runEvery
	}
	return poll(ctx, every, func() error {
		found, err := processes(machines, c)
		if err != nil {
			return err
		}
		for _, m := range machines {
			if !slices.ContainsFunc(found, func(p machine.Process) bool {
				return p.Machine() == m.Name && !slices.ContainsFunc(old, p.Is)
			}) {
				return fmt.Errorf("%s has no new %s", m.Name, c.program)
			}
		}
		return nil
	})
}

// running are the machines of these names that are not off.
func (l *Lab) running(names []string) ([]*machine.Machine, error) {
	machines, err := machine.All(l.cfg.Name)
	return slices.DeleteFunc(machines, func(m *machine.Machine) bool { return !slices.Contains(names, m.Name) }), err
}

func processes(machines []*machine.Machine, c component) ([]machine.Process, error) {
	var all []machine.Process
	for _, m := range machines {
		found, err := m.ProcessesThat(c.is)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Status describes the machines and the cluster, for people.
func (l *Lab) Status(ctx context.Context) (string, error) {
	var out strings.Builder
	for _, name := range append(l.cfg.NodeNames(), Outside, fabric) {
		m, err := machine.Find(l.cfg.Name, name)
		if err != nil {
			return "", err
		}
		state := "down"
		if m != nil {
			state = fmt.Sprintf("up, process %d", m.PID)
		}
		fmt.Fprintf(&out, "%-20s %-20s %s\n", name, join(l.cfg.Addresses(name)), state)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, args := range [][]string{{"get", "nodes"}, {"get", "pods", "-A", "-o", "wide"}} {
		text, err := l.kubectlOutput(ctx, append(args, "--request-timeout=5s")...)
		if err != nil {
			return out.String(), err
		}
		out.WriteString("\n" + text)
	}
	return out.String(), nil
}

// Down removes the lab, whatever state it is in: machines by the lab's name, then
// what is on disk and in the cgroup tree.
func (l *Lab) Down(context.Context) error {
	machines, err := machine.All(l.cfg.Name)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range machines {
		errs = append(errs, m.Kill())
	}
	errs = append(errs, machine.RemoveCgroups(l.cfg.Name, ""))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if _, err := os.Stat(l.path(stateName)); errors.Is(err, os.ErrNotExist) {
		return nil // nothing of ours: the directory may be anything
	}
	entries, err := os.ReadDir(l.cfg.Workdir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != stateName {
			errs = append(errs, os.RemoveAll(l.path(entry.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.RemoveAll(l.cfg.Workdir)
}
