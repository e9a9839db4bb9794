package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

const (
	dpuDaemonSet = "ovnkube-node-dpu"
	// lookEvery is the time between two looks at the pod that writes the files.
	lookEvery = time.Second
)

// Image is that of the agents on DPUs, which the chart has installed in the DPU's cluster.
func Image(ctx context.Context, client dynamic.Interface) (string, error) {
	kind := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	object, err := client.Resource(kind).Namespace(contract.DPULeaseNamespace).Get(ctx, dpuDaemonSet, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the DPU's cluster needs the chart with dpus.enabled=true: %w", err)
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	for _, container := range containers {
		if fields, ok := container.(map[string]any); ok && fields["image"] != nil {
			return fmt.Sprint(fields["image"]), nil
		}
	}
	return "", fmt.Errorf("DaemonSet %s names no image", dpuDaemonSet)
}

// Deliver writes the files into Dir of a DPU, by a pod on the DPU. Pod and Secret are deleted in every case.
func Deliver(ctx context.Context, client *api.Client, node, image string, files Files) (err error) {
	name := "ovn-dpu-join-" + node
	secrets, pods := client.Secrets(contract.DPULeaseNamespace), client.Pods(contract.DPULeaseNamespace)
	now := int64(0)
	remove := func(ctx context.Context) error {
		return errors.Join(
			ignoreAbsent(pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})),
			ignoreAbsent(secrets.Delete(ctx, name, metav1.DeleteOptions{})),
		)
	}
	if err := remove(ctx); err != nil { // what an interrupted command has left
		return err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: contract.DPULeaseNamespace}, Data: files}
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making Secret %s: %w", name, err)
	}
	if _, err := pods.Create(ctx, pod(name, node, image), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making pod %s: %w", name, err)
	}
	var last *corev1.Pod
	err = wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		if last, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		return last.Status.Phase == corev1.PodSucceeded || last.Status.Phase == corev1.PodFailed, nil
	})
	if err != nil {
		return fmt.Errorf("pod %s has not written the files on %s: %s: %w", name, node, state(last), err)
	}
	if last.Status.Phase == corev1.PodFailed {
		return fmt.Errorf("pod %s cannot write the files on %s: %s", name, node, state(last))
	}
	return nil
}

func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// state is what a pod's status says of its container.
func state(pod *corev1.Pod) string {
	if pod == nil {
		return "no status"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return c.State.Waiting.Reason + " " + c.State.Waiting.Message
		}
		if c.State.Terminated != nil {
			return fmt.Sprintf("exit code %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Message)
		}
	}
	return string(pod.Status.Phase)
}

// pod copies the Secret. A rename replaces each file, so the agent never reads a part of one.
func pod(name, node, image string) *corev1.Pod {
	const copyFiles = `set -e; umask 077; for f in token kubeconfig; do cp "/join/$f" "/host/.$f.new"; mv "/host/.$f.new" "/host/$f"; done`
	directory, root := corev1.HostPathDirectoryOrCreate, int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: contract.DPULeaseNamespace},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(bool),
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "join", Image: image, Command: []string{"sh", "-c", copyFiles},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				SecurityContext:          &corev1.SecurityContext{RunAsUser: &root},
				VolumeMounts:             []corev1.VolumeMount{{Name: "join", MountPath: "/join", ReadOnly: true}, {Name: "host", MountPath: "/host"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "join", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}},
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: Dir, Type: &directory}}},
			},
		},
	}
}
