package join

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

const server = "https://192.0.2.10:6443"

func hosts(objects ...runtime.Object) *api.Client {
	objects = append(objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chassis.DPUNamespace}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: contract.DPULeaseNamespace, Name: chassis.RecordMap},
			Data:       map[string]string{"worker-1": "former", "worker-2": "other"},
		})
	client := apitest.Client(fake.NewSimpleClientset(objects...))
	client.Token = func(_ context.Context, account types.NamespacedName, validity time.Duration) (string, error) {
		return "token of " + account.String() + " for " + validity.String(), nil
	}
	return client
}

func node(name string, labels ...string) *corev1.Node {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		object.Labels[label] = ""
	}
	return object
}

func records(t *testing.T, client *api.Client) map[string]string {
	t.Helper()
	object, err := client.ConfigMaps(contract.DPULeaseNamespace).Get(t.Context(), chassis.RecordMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Data
}

func TestAdmit_FilesAreAKubeconfigWithTokenFile(t *testing.T) {
	client := hosts(node("worker-1"))
	files, err := Admit(t.Context(), client, "worker-1", server, []byte("authority"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Accounts(chassis.DPUNamespace).Get(t.Context(), "worker-1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rc, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if rc.Host != server || string(rc.CAData) != "authority" || rc.BearerTokenFile != filepath.Join(dir, "token") {
		t.Errorf("the kubeconfig gives %s, %s, %s", rc.Host, rc.CAData, rc.BearerTokenFile)
	}
	if want := "token of ovn-dpu/worker-1 for 2160h0m0s"; string(files["token"]) != want {
		t.Errorf("token %q, want %q", files["token"], want)
	}
}

func TestAdmit_NewHostLosesTheRecordOfItsChassis(t *testing.T) {
	client := hosts(node("worker-1"))
	for range 2 { // again, with the account there
		if _, err := Admit(t.Context(), client, "worker-1", server, nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"worker-2": "other"}, records(t, client)); diff != "" {
		t.Error(diff)
	}
}

func TestAdmit_HostWithDPUKeepsTheRecord(t *testing.T) {
	client := hosts(node("worker-1", contract.DPUHostLabel))
	if _, err := Admit(t.Context(), client, "worker-1", server, nil); err != nil {
		t.Fatal(err)
	}
	if records(t, client)["worker-1"] != "former" {
		t.Error("the record of the DPU's chassis is gone")
	}
}

func TestAdmit_WrongInputMakesNoAccount(t *testing.T) {
	for name, tc := range map[string]struct {
		server, want string
		client       *api.Client
	}{
		"loopback":      {"https://127.0.0.1:6443", "--server", hosts(node("worker-1"))},
		"localhost":     {"https://localhost:6443", "--server", hosts(node("worker-1"))},
		"no URL":        {"192.0.2.10:6443", "want a URL", hosts(node("worker-1"))},
		"no such host":  {server, "the host is not in the cluster", hosts()},
		"no DPUs in it": {server, "dpuHosts.enabled=true", apitest.Client(fake.NewSimpleClientset(node("worker-1")))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Admit(t.Context(), tc.client, "worker-1", tc.server, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if _, err := tc.client.Accounts(chassis.DPUNamespace).Get(t.Context(), "worker-1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the account: %v", err)
			}
		})
	}
}

func TestLeave_DeletesTheAccount(t *testing.T) {
	client := hosts(node("worker-1"))
	if _, err := Admit(t.Context(), client, "worker-1", server, nil); err != nil {
		t.Fatal(err)
	}
	if err := Leave(t.Context(), client, "worker-1"); err != nil {
		t.Fatal(err)
	}
	if err := Leave(t.Context(), client, "worker-1"); !apierrors.IsNotFound(err) {
		t.Errorf("a second time: %v", err)
	}
}

// TestUnlabel_RemovesLabelOfDPU: what join has labelled is an ordinary Node again, and other labels stay.
func TestUnlabel_RemovesLabelOfDPU(t *testing.T) {
	n := node("bf3-1")
	n.Labels = map[string]string{"rack": "7"}
	client := hosts(n)
	if err := Label(t.Context(), client, "bf3-1", contract.DPULabel); err != nil {
		t.Fatal(err)
	}
	labels := func() map[string]string {
		got, err := client.Nodes.Get(t.Context(), "bf3-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Labels
	}
	if _, ok := labels()[contract.DPULabel]; !ok {
		t.Fatalf("labels %v", labels())
	}
	if err := Unlabel(t.Context(), client, "bf3-1", contract.DPULabel); err != nil {
		t.Fatal(err)
	}
	if got := labels(); len(got) != 1 || got["rack"] != "7" {
		t.Errorf("labels %v", got)
	}
	if err := Unlabel(t.Context(), client, "none", contract.DPULabel); err == nil {
		t.Error("a Node that is not there")
	}
}

// deliver has the kubelet's part played: every pod gets the status.
func deliver(t *testing.T, status corev1.PodStatus) (made *corev1.Pod, secret *corev1.Secret, left int, err error) {
	t.Helper()
	client := fake.NewSimpleClientset()
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		made = action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		made.Status = status
		if object, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), contract.DPULeaseNamespace, "ovn-dpu-join-bf3-1"); err == nil {
			secret = object.(*corev1.Secret)
		}
		return false, nil, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = Deliver(ctx, apitest.Client(client), "bf3-1", "image", Files{"kubeconfig": []byte("k"), "token": []byte("t")})
	pods, _ := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	secrets, _ := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	return made, secret, len(pods.Items) + len(secrets.Items), err
}

func TestDeliver_PodOnTheDPUCopiesTheSecret(t *testing.T) {
	pod, secret, left, err := deliver(t, corev1.PodStatus{Phase: corev1.PodSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != "bf3-1" || pod.Spec.Containers[0].Image != "image" || pod.Spec.Volumes[1].HostPath.Path != Dir {
		t.Errorf("pod %+v", pod.Spec)
	}
	if secret == nil || string(secret.Data["token"]) != "t" {
		t.Errorf("Secret %+v", secret)
	}
	if left != 0 {
		t.Errorf("%d objects are left", left)
	}
}

func TestDeliver_FailureSaysWhyAndLeavesNothing(t *testing.T) {
	waiting := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}}}
	ended := []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "read-only file system"}}}}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
		late   bool
	}{
		"never starts": {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting}, "ErrImagePull no such image", true},
		"cannot write": {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: ended}, "exit code 1 read-only file system", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, left, err := deliver(t, tc.status)
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, context.DeadlineExceeded) != tc.late {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if left != 0 {
				t.Errorf("%d objects are left", left)
			}
		})
	}
}
