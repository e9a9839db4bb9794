package nodecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/ovn-offload/ovn-offload/pkg/scratch"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Namespace is that of the pods. label marks it.
const (
	Namespace = "ovn-offload-preflight"
	label     = "ovn-offload.io/preflight"
)

const (
	startWithin = 2 * time.Minute
	checkWithin = time.Minute
	lookEvery   = time.Second
	atATime     = 16
)

// Report is what the preflight of a node has said. Error is why it has said nothing.
type Report struct {
	Node    string `json:"node"`
	Verdict string `json:"verdict,omitempty"`
	// Pods is offload, veth or no; "": the agent is of a former version.
	Pods     string    `json:"pods,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Finding is that of one check.
type Finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
	Message string `json:"message"`
	Do      string `json:"do,omitempty"`
	Page    string `json:"page,omitempty"`
}

// Cluster is where the pods are made.
type Cluster struct {
	Client dynamic.Interface
	// Exec runs commands in Namespace.
	Exec *sysdump.Cluster
	// Image has ovn-offload-agent, Args are further flags of its preflight.
	Image string
	Args  []string
}

func (c Cluster) namespace() scratch.Namespace {
	return scratch.Namespace{Client: c.Client, Name: Namespace, Label: label, Purpose: "preflight"}
}

// Run makes the pods, reads their reports, and deletes the namespace in every case but that of scratch.ErrPresent: another command has it.
func (c Cluster) Run(ctx context.Context, nodes []string) (reports []Report, err error) {
	namespace := c.namespace()
	switch err := namespace.Create(ctx, scratch.Namespaces(), namespace.Object()); {
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("namespace %s %w\nnext: kubectl delete namespace %s", Namespace, scratch.ErrPresent, Namespace)
	case err != nil:
		return nil, err
	}
	defer func() {
		_, removed := namespace.Remove(context.WithoutCancel(ctx))
		err = errors.Join(err, removed)
	}()
	reports = make([]Report, len(nodes))
	var all errgroup.Group
	all.SetLimit(atATime)
	for i, node := range nodes {
		all.Go(func() error {
			report, err := c.node(ctx, node)
			if err != nil {
				report = Report{Error: err.Error()}
			}
			report.Node = node
			reports[i] = report
			return nil
		})
	}
	_ = all.Wait() // none fails
	return reports, ctx.Err()
}

func (c Cluster) node(ctx context.Context, node string) (report Report, err error) {
	kind := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	made := pod(node, c.Image)
	if err := c.namespace().Create(ctx, kind, made); err != nil {
		return report, err
	}
	state := ""
	err = wait.PollUntilContextTimeout(ctx, lookEvery, startWithin, true, func(ctx context.Context) (bool, error) {
		found, err := c.Client.Resource(kind).Namespace(Namespace).Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		state, _, err = unstructured.NestedString(found.Object, "status", "phase")
		return state == string(corev1.PodRunning), err
	})
	if err != nil {
		return report, fmt.Errorf("waiting for the pod, which is %s: %w", state, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	var out, errs bytes.Buffer
	err = c.Exec.Exec(ctx, sysdump.Container{Pod: made.Name, Name: "preflight"}, command(node, c.Args), &out, &errs)
	if failed := (utilexec.CodeExitError{}); err != nil && !errors.As(err, &failed) {
		return report, fmt.Errorf("running the preflight: %w: %s", err, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return report, fmt.Errorf("reading the preflight: %w: %s", err, errs.String())
	}
	return report, nil
}

func command(node string, args []string) []string {
	return append([]string{"ovn-offload-agent", "preflight", "--root=/host", "--output=json", "--node-name=" + node}, args...)
}

func pod(node, image string) *corev1.Pod {
	privileged, noToken, grace := true, false, int64(0)
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(node), Namespace: Namespace},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true, HostPID: true, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: &noToken, TerminationGracePeriodSeconds: &grace,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "preflight", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "600"},
				SecurityContext: &corev1.SecurityContext{Privileged: &privileged}, // as in the chart
				VolumeMounts:    []corev1.VolumeMount{{Name: "host", MountPath: "/host", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		},
	}
}

// Nodes are the names of all nodes, or those that are asked for.
func Nodes(all []corev1.Node, asked []string) ([]string, error) {
	var names []string
	for _, node := range all {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	for _, name := range asked {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no node %s", name)
		}
	}
	if len(asked) > 0 {
		return asked, nil
	}
	return names, nil
}
