package sysdump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// Cluster runs commands in pods of one namespace and reads their logs.
type Cluster struct {
	Namespace string
	config    *rest.Config
	client    *corev1client.CoreV1Client
}

// NewCluster makes one from a configuration of client-go.
func NewCluster(config *rest.Config, namespace string) (*Cluster, error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Namespace: namespace, config: config, client: client}, nil
}

// Container is one of a pod.
type Container struct{ Pod, Name string }

// PodsAt are those on a node.
func (c *Cluster) PodsAt(ctx context.Context, node string) ([]corev1.Pod, error) {
	return c.pods(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
}

// PodsOf are those with a label app.
func (c *Cluster) PodsOf(ctx context.Context, app string) ([]corev1.Pod, error) {
	return c.pods(ctx, metav1.ListOptions{LabelSelector: labels.Set{"app": app}.String()})
}

func (c *Cluster) pods(ctx context.Context, of metav1.ListOptions) ([]corev1.Pod, error) {
	list, err := c.client.Pods(c.Namespace).List(ctx, of)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Exec runs a command in a container. What it prints goes to out, and its error output to errs.
func (c *Cluster) Exec(ctx context.Context, in Container, command []string, out, errs io.Writer) error {
	request := c.client.RESTClient().Post().Resource("pods").Namespace(c.Namespace).Name(in.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: in.Name, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errs})
}

// LogSince reads the end of what a container has written for a while.
func (c *Cluster) LogSince(ctx context.Context, of Container, since time.Duration, limit int64) ([]byte, error) {
	return c.read(ctx, of, false, since, limit)
}

func (c *Cluster) read(ctx context.Context, of Container, previous bool, since time.Duration, limit int64) ([]byte, error) {
	seconds := int64(math.Ceil(since.Seconds()))
	stream, err := c.client.Pods(c.Namespace).GetLogs(of.Pod, &corev1.PodLogOptions{
		Container: of.Name, Previous: previous, SinceSeconds: &seconds, Timestamps: true,
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // it was only read
	kept := &tail{limit: limit}
	_, err = io.Copy(kept, stream)
	return kept.text, err
}

// tail keeps the last bytes that were written, in whole lines.
type tail struct {
	text  []byte
	limit int64
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := int64(len(t.text)) - t.limit; over > 0 {
		cut := int(over)
		if line := bytes.IndexByte(t.text[cut:], '\n'); line >= 0 {
			cut += line + 1
		}
		t.text = append(t.text[:0], t.text[cut:]...)
	}
	return len(p), nil
}

// errFull ends an output that is too long.
var errFull = errors.New("the output is longer than its limit")

// head keeps the first bytes that were written, to several writers of one output too.
type head struct {
	text    bytes.Buffer
	limit   int
	full    bool
	writing sync.Mutex
}

// Write implements io.Writer. It takes what it does not keep: client-go says nothing of an error here.
func (h *head) Write(p []byte) (int, error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	keeps := min(len(p), h.limit-h.text.Len())
	h.full = h.full || keeps < len(p)
	h.text.Write(p[:keeps])
	return len(p), nil
}

// exec runs a command with an output that is kept up to its limit.
func (c *Cluster) exec(ctx context.Context, in Container, command []string, out *head, errs io.Writer) error {
	err := c.Exec(ctx, in, command, out, errs)
	if err == nil && out.full {
		return errFull
	}
	return err
}

// output runs a command and gives what it printed, with a last line if it failed or was cut.
func (c *Cluster) output(ctx context.Context, in Container, command []string) []byte {
	out := &head{limit: outputLimit}
	if err := c.exec(ctx, in, command, out, out); err != nil {
		fmt.Fprintf(&out.text, "\n# %v\n", err)
	}
	return out.text.Bytes()
}
