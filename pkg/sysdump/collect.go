package sysdump

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// The bounds of an archive before compression: of one log, of one command's output, and of the time of one node.
const (
	logLimit    = 4 << 20
	outputLimit = 8 << 20
	logsSince   = 2 * time.Hour
	nodeTimeout = time.Minute
	workers     = 8
)

// command is what is run in one container of each pod of an app.
type command struct {
	app, container, file string
	args                 []string
}

// commands only read. None prints a key or a password.
func commands() []command {
	ovs := func(file string, args ...string) command { return command{"ovs-node", "ovs-daemons", file, args} }
	agent := func(file string, args ...string) command {
		return command{"ovnkube-node", "ovn-offload-agent", file, args}
	}
	return []command{
		ovs("ovs-vsctl-show", "ovs-vsctl", "show"),
		ovs("ovs-vsctl-settings", "ovs-vsctl", "list", "Open_vSwitch"),
		ovs("ports-br-int", "ovs-ofctl", "-O", "OpenFlow15", "dump-ports-desc", "br-int"),
		ovs("flows-br-int", "ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "br-int"),
		ovs("datapath-flows", "ovs-appctl", "dpctl/dump-flows", "-m"),
		ovs("coverage", "ovs-appctl", "coverage/show"),
		ovs("upcalls", "ovs-appctl", "upcall/show"),
		agent("inventory", "ovn-offload-agent", "inventory"),
		agent("offload", "ovn-offload-agent", "offload", "-o", "json"),
		agent("addresses", "ip", "address"),
		agent("routes", "ip", "route", "show", "table", "all"),
		agent("nftables", "nft", "list", "ruleset"),
		agent("tc-rules", "sh", "-c", eachLink("", "tc -s filter show dev $link ingress")),
		agent("nic-counters", "sh", "-c", eachLink("/device", "ethtool -S $link")),
		agent("devlink", "sh", "-c", "devlink dev info; devlink port show; devlink health show"),
		agent("kernel-log", "sh", "-c", kernelLog),
		{"ovnkube-db", "nb-ovsdb", "northbound", []string{"ovn-nbctl", "show"}},
		{"ovnkube-db", "sb-ovsdb", "southbound", []string{"ovn-sbctl", "show"}},
	}
}

// Options say what Collect takes along.
type Options struct {
	// Nodes are those whose commands and logs are collected; empty: all.
	Nodes []string
	// Flows are those of the nodes, with names.
	Flows map[string]snapshot.NodeFlows
	// Progress gets a line for each node.
	Progress io.Writer
}

// Collect writes an archive. A command or a log that fails leaves its error in its file.
func Collect(ctx context.Context, c *Cluster, s *snapshot.Snapshot, to io.Writer, o Options) error {
	archive, err := snapshot.NewArchive(to, s)
	if err != nil {
		return err
	}
	for _, node := range slices.Sorted(maps.Keys(o.Flows)) {
		if err := archive.AddFlows(node, o.Flows[node]); err != nil {
			return err
		}
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return err
	}
	byNode := map[string][]corev1.Pod{}
	for _, pod := range pods {
		if pod.Namespace == c.Namespace && (len(o.Nodes) == 0 || slices.Contains(o.Nodes, pod.Spec.NodeName)) {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	if err := collectNodes(ctx, c, byNode, archive, o.Progress); err != nil {
		return err
	}
	return archive.Close()
}

// collectNodes asks several nodes at once. One writes the archive at a time.
func collectNodes(ctx context.Context, c *Cluster, byNode map[string][]corev1.Pod, archive *snapshot.Archive, progress io.Writer) error {
	var all sync.WaitGroup
	var writing sync.Mutex
	var failed error
	free := make(chan struct{}, workers)
	for node, pods := range byNode {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			files := c.node(ctx, node, pods)
			writing.Lock()
			defer writing.Unlock()
			for _, f := range files {
				if failed == nil {
					failed = archive.Add(f.name, f.text)
				}
			}
			fmt.Fprintf(progress, "%s: %d files\n", node, len(files))
		})
	}
	all.Wait()
	return failed
}

type file struct {
	name string
	text []byte
}

// node collects from the network's pods of one node.
func (c *Cluster) node(ctx context.Context, node string, pods []corev1.Pod) []file {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var files []file
	for _, pod := range pods {
		for _, run := range commands() {
			if hasContainer(pod, run.app, run.container) {
				files = append(files, file{"nodes/" + node + "/" + run.file + ".txt", c.output(ctx, Container{pod.Name, run.container}, run.args)})
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			name, of := "logs/"+node+"/"+pod.Name+"/"+container.Name, Container{pod.Name, container.Name}
			files = append(files, file{name + ".log", c.log(ctx, of, false)})
			if container.RestartCount > 0 {
				files = append(files, file{name + ".previous.log", c.log(ctx, of, true)})
			}
		}
	}
	return files
}

func (c *Cluster) log(ctx context.Context, of Container, previous bool) []byte {
	text, err := c.Log(ctx, of, previous, logLimit)
	if err != nil {
		text = fmt.Appendf(text, "\n# %v\n", err)
	}
	return text
}

// hasContainer says whether a pod is one of an app and has a container. The apps of DaemonSets have names for the kinds of
// nodes, such as ovnkube-node-dpu.
func hasContainer(pod corev1.Pod, app, container string) bool {
	return strings.HasPrefix(pod.Labels["app"], app) &&
		slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
}

// Find gives a ready container of an app's pods, on a node if one is named.
func (c *Cluster) Find(pods []corev1.Pod, app, container, node string) (Container, error) {
	for _, pod := range pods {
		if pod.Namespace != c.Namespace || node != "" && pod.Spec.NodeName != node || !hasContainer(pod, app, container) {
			continue
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == container && status.Ready {
				return Container{pod.Name, container}, nil
			}
		}
	}
	where := ""
	if node != "" {
		where = " on node " + node
	}
	return Container{}, fmt.Errorf("no ready pod with label app=%s and container %s in namespace %s%s", app, container, c.Namespace, where)
}
