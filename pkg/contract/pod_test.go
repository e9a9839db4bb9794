package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPod_CompletedAndWantsNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		change           func(*corev1.Pod)
		completed, wants bool
	}{
		"running":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false, true},
		"pending":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false, true},
		"unscheduled":  {func(p *corev1.Pod) { p.Spec.NodeName = "" }, false, false},
		"host network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, false, false},
		"terminating":  {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false, true},
		"succeeded":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true, false},
		"failed":       {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
		tc.change(pod)
		if Completed(pod) != tc.completed || WantsNetwork(pod) != tc.wants {
			t.Errorf("%s: completed %v, wants network %v", name, Completed(pod), WantsNetwork(pod))
		}
	}
}

// TestRunningContainers_AreThoseThatRunBesideEachOther: an init container that ends has no ports, although its specification
// lists some.
func TestRunningContainers_AreThoseThatRunBesideEachOther(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}, {Name: "once", RestartPolicy: &never}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
	var names []string
	for _, c := range RunningContainers(pod) {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"main", "side"}) || len(pod.Spec.Containers) != 1 {
		t.Errorf("containers %v", names)
	}
}

// TestInitContainers_AreReadInFewPlaces: who wants the ports of a pod calls RunningContainers.
func TestInitContainers_AreReadInFewPlaces(t *testing.T) {
	may := map[string]bool{
		"pkg/contract/pod.go": true, "pkg/kube/trim.go": true,
		"pkg/cni/function.go": true, // devices, which init containers get, too
		"pkg/lint/check.go":   true, // says of each init container what it gets
	}
	found := 0
	for _, dir := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if name := strings.TrimPrefix(filepath.ToSlash(path), "../../"); regexp.MustCompile(`\bInitContainers\b`).Match(text) {
				if found++; !may[name] {
					t.Errorf("%s reads InitContainers: call contract.RunningContainers", name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found != len(may) {
		t.Errorf("%d files read InitContainers, want %d", found, len(may))
	}
}
