package sysdump

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// The bounds of an archive before compression: of one log, of one command's output, and of the time of one node.
const (
	logLimit    = 4 << 20
	outputLimit = 8 << 20
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
		agent("metrics", "bash", "-c", metricsAt("9410")),
		{"ovnkube-master", "ovn-offload-controller", "controller-metrics", []string{"bash", "-c", metricsAt("9411")}},
		{"ovnkube-db", "nb-ovsdb", "northbound", contract.AtMember("ovn-nbctl", "show")},
		{"ovnkube-db", "sb-ovsdb", "southbound", contract.AtMember("ovn-sbctl", "show")},
		copyOf("nb", "northbound.db.gz"),
		copyOf("sb", "southbound.db.gz"),
	}
}

// metricsAt are the commands of bash that print the metrics of a process by its port on the node itself.
func metricsAt(port string) string {
	return `exec 3<>/dev/tcp/127.0.0.1/` + port + ` && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && sed '1,/^\r$/d' <&3`
}

// Options say what Collect takes along.
type Options struct {
	// Nodes are those whose commands and logs are collected, in this order; empty: all.
	Nodes []string
	// Since is the time before now of which logs are collected.
	Since time.Duration
	// MaxSize is that of the archive in bytes: nodes that come later are left out.
	MaxSize int64
	// Flows are those of the nodes, with names.
	Flows map[string]snapshot.NodeFlows
	// Through changes each file, so that names and addresses are pseudonyms; nil: they are not. Logs and outputs with names that no
	// object may have any more are then left out.
	Through snapshot.Through
	// Progress gets a line for each node.
	Progress io.Writer
}

// Collect writes an archive. A command or a log that fails leaves its error in its file.
func Collect(ctx context.Context, c *Cluster, s *snapshot.Snapshot, to io.Writer, o Options) error {
	size := &counter{to: to}
	archive, err := snapshot.NewArchiveThrough(size, s, o.Through)
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
	if len(o.Nodes) == 0 {
		o.Nodes = slices.Sorted(maps.Keys(byNode))
	}
	collect := func(node string) []file { return c.node(ctx, node, byNode[node], o) }
	if err := o.collectNodes(collect, archive, size); err != nil {
		return err
	}
	return archive.Close()
}

// counter counts what is written.
type counter struct {
	to    io.Writer
	bytes atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// collectNodes asks several nodes at once. One writes the archive at a time. The file left-out.txt names the nodes for which
// the archive was too large, and copies of databases that it does not have.
func (o Options) collectNodes(collect func(node string) []file, archive *snapshot.Archive, size *counter) (failed error) {
	var all sync.WaitGroup
	var writing sync.Mutex
	var left bytes.Buffer
	free := make(chan struct{}, workers)
	for _, node := range o.Nodes {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if has := size.bytes.Load(); has >= o.MaxSize {
				writing.Lock()
				defer writing.Unlock()
				fmt.Fprintln(&left, node)
				fmt.Fprintf(o.Progress, "%s: left out, the archive has %d MiB\n", node, has>>20)
				return
			}
			files := collect(node)
			writing.Lock()
			defer writing.Unlock()
			if failed == nil {
				failed = o.add(archive, size, files, &left)
			}
			fmt.Fprintf(o.Progress, "%s: %d files\n", node, len(files))
		})
	}
	all.Wait()
	if failed == nil && left.Len() > 0 {
		failed = archive.Add("left-out.txt", left.Bytes())
	}
	return failed
}

type file struct {
	name string
	text []byte
	left string // why it is not in the archive
}

// namesFormer says whether the output of a command may have names of deleted objects, which look like any other word.
func (c command) namesFormer() bool {
	return c.isCopy() || slices.Contains([]string{"flows-br-int", "datapath-flows", "kernel-log", "northbound", "southbound", "offload", "ovs-vsctl-show", "metrics", "controller-metrics"}, c.file)
}

// node collects from the network's pods of one node.
func (c *Cluster) node(ctx context.Context, node string, pods []corev1.Pod, o Options) []file {
	isRedacted := o.Through != nil
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var files []file
	for _, pod := range pods {
		for _, run := range commands() {
			if hasContainer(pod, run.app, run.container) && (!isRedacted || !run.namesFormer()) {
				files = append(files, c.file(ctx, node, pod.Name, run))
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if isRedacted {
				break // its log has former names, too
			}
			name, of := "logs/"+node+"/"+pod.Name+"/"+container.Name, Container{pod.Name, container.Name}
			files = append(files, file{name: name + ".log", text: c.log(ctx, of, false, o.Since)})
			if container.RestartCount > 0 {
				files = append(files, file{name: name + ".previous.log", text: c.log(ctx, of, true, o.Since)})
			}
		}
	}
	return files
}

func (c *Cluster) log(ctx context.Context, of Container, previous bool, since time.Duration) []byte {
	text, err := c.read(ctx, of, previous, since, logLimit)
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
