package testbed

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kind is the cluster of deploy/kind/up with the containers of deploy/kind/tools:
// one in the namespaces of each node, and the external host.
type Kind struct {
	name   string // of the cluster
	config string // file of kubectl's configuration
}

var _ Cluster = Kind{}

// NewKind writes the cluster's configuration of kubectl into a directory.
func NewKind(name, dir string) (Kind, error) {
	k := Kind{name: name, config: filepath.Join(dir, "kubeconfig")}
	config, err := exec.Command("kind", "get", "kubeconfig", "--name", name).Output()
	if err != nil {
		return k, fmt.Errorf("asking kind for the configuration of cluster %s: %w", name, err)
	}
	return k, os.WriteFile(k.config, config, 0o600)
}

// Run runs a command in the container with tools that shares the node's namespaces.
func (k Kind) Run(out io.Writer, node string, command ...string) error {
	return run(out, "docker", append([]string{"exec", node + "-tools"}, command...)...)
}

// RunExternal uses the container that is on the network of the nodes.
func (k Kind) RunExternal(out io.Writer, command ...string) error {
	return run(out, "docker", append([]string{"exec", k.name + "-" + External}, command...)...)
}

// components are the processes that tests kill, as patterns of pgrep over whole command lines.
func components() map[string]string {
	return map[string]string{
		"controller": "^[^ ]*ovn-offload-controller .*--lease-namespace", "northd": "^[^ ]*ovn-northd",
		"nb": "^[^ ]*ovsdb-server .*ovnnb", "sb": "^[^ ]*ovsdb-server .*ovnsb",
		"agent": "^[^ ]*ovn-offload-agent", "ovn-controller": "^[^ ]*ovn-controller", "ovs-vswitchd": "^[^ ]*ovs-vswitchd",
	}
}

// restarted kills the processes of a pattern and waits until there is another.
const restarted = `old=$(pgrep -f "$1") || exit 3
kill -9 $old
for i in $(seq 600); do
	for new in $(pgrep -f "$1"); do
		case " $(echo $old) " in *" $new "*) ;; *) exit 0 ;; esac
	done
	sleep 0.2
done
exit 4`

// Restart knows the components that tests kill; those of the cluster are on the control plane.
func (k Kind) Restart(component string) error {
	kind, node, found := strings.Cut(component, "@")
	if !found {
		node = k.name + "-control-plane"
	}
	pattern, known := components()[kind]
	if !known {
		return fmt.Errorf("no component %q on kind", component)
	}
	var out bytes.Buffer
	if err := k.Run(&out, node, "sh", "-c", restarted, "sh", pattern); err != nil {
		return fmt.Errorf("restarting %s: %w: %s", component, err, out.String())
	}
	return nil
}

// Load takes a tar file as docker saves it.
func (k Kind) Load(image string) error {
	var out bytes.Buffer
	if err := run(&out, "kind", "load", "image-archive", image, "--name", k.name); err != nil {
		return fmt.Errorf("loading %s: %w: %s", image, err, out.String())
	}
	return nil
}

// Kubectl is kubectl of PATH.
func (k Kind) Kubectl() (program, config string) { return "kubectl", k.config }

func run(out io.Writer, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}
