//go:build e2e

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// plugin is the path of kubectl-offload, built once.
var plugin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(cluster.root, "_output/bin/kubectl-offload")
	out, err := exec.Command("go", "build", "-C", cluster.root, "-tags", "grpcnotrace", "-o", path, "./cmd/kubectl-offload").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// kubectlOffload runs a verb of the plugin and gives what it printed, and its exit code.
func kubectlOffload(t *testing.T, args ...string) (string, int) {
	t.Helper()
	_, config := cluster.Kubectl()
	return offloadAs(t, config, args...)
}

// offloadAs runs a verb of the plugin with a kubeconfig.
func offloadAs(t *testing.T, config string, args ...string) (string, int) {
	t.Helper()
	path, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	world.Pace(t, config, args...)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// decodeAnswer reads the JSON behind the lines of a command's progress.
func decodeAnswer(t *testing.T, out string, answer any) {
	t.Helper()
	if err := json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestPlugin_StatusNamesWhatIsBroken: a pod that asks for a network that does not exist is a problem; a good one is none.
func TestPlugin_StatusNamesWhatIsBroken(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	world.Eventually(t, world.Soon, "status knows the nodes, the leader and the one version of the agents",
		func() (bool, string) {
			out, code := kubectlOffload(t, "status", "-o", "json")
			var st says.Status
			if err := json.Unmarshal([]byte(out), &st); err != nil {
				return false, fmt.Sprintf("exit code %d, %v: %s", code, err, out)
			}
			if int(st.Code) != code || strings.Contains(out, ns+"/") {
				t.Errorf("before anything is wrong: exit code %d: %s", code, out)
			}
			return len(st.Missing) == 0 && st.Nodes.All >= len(nodes) && st.Leader != "" && len(st.Versions["agent"]) == 1, out
		})
	pod := world.Pod(ns, "waits", nodes[1])
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "no-such-network"}
	if _, err := cluster.client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.Soon, "status names the pod that waits for its network", func() (bool, string) {
		out, code := kubectlOffload(t, "status")
		return code != 0 && strings.Contains(out, "pod/"+ns+"/waits") && strings.Contains(out, "NetworkNotFound"), out
	})
	world.Eventually(t, world.Soon, "explain names the network that is not there", func() (bool, string) {
		out, code := kubectlOffload(t, "explain", "pod/waits", "-n", ns)
		return code != 0 && strings.Contains(out, "NetworkNotFound"), out
	})
}

// TestPlugin_VersionComparesControllerAndAgents: those of the lab are of one build.
func TestPlugin_VersionComparesControllerAndAgents(t *testing.T) {
	world.Test(t, world.Tools)
	world.Eventually(t, world.Soon, "the agents have the controller's version", func() (bool, string) {
		v, code := kubectlOffloadJSON[says.Versions](t, "version")
		if v.Kind != "" && int(v.Code) != code {
			t.Errorf("exit code %d: %+v", code, v)
		}
		return v.Controller != "" && len(v.Agents) == 1 && v.Agents[0].Value == v.Controller && v.Agents[0].Count >= len(nodes) && len(v.Skew) == 0, fmt.Sprintf("%+v", v)
	})
}

// TestPlugin_ExplainsPod that has no VF, and refuses what does not exist.
func TestPlugin_ExplainsPod(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	pod := world.Run(t, world.Pod(ns, "web", nodes[1]))[0]
	world.Eventually(t, world.Soon, "explain has the address, the node and why there is no hardware", func() (bool, string) {
		out, code := kubectlOffload(t, "explain", "pod/web", "-n", ns)
		well := code == 0 || strings.Contains(out, "PROBLEM") // of the node, which other tests share
		return well && strings.Contains(out, world.Addresses(pod)[0].String()+"/") && strings.Contains(out,
			"no-vf") && strings.Contains(out, nodes[1]), fmt.Sprintf("exit code %d: %s", code, out)
	})
	world.Eventually(t, world.Soon, "topology has the node and a veth", func() (bool, string) {
		out, code := kubectlOffload(t, "topology", "pod/web", "-n", ns)
		return code == 0 && strings.Contains(out, "└─ "+nodes[1]) && strings.Contains(out, "└─ a veth"), fmt.Sprintf("exit code %d: %s", code, out)
	})
	for want, args := range map[string][]string{
		"pod/" + ns + "/web  ": {"explain", "po/web", "-n", ns}, "node/" + nodes[1]: {"explain", "nof/" + nodes[1]},
		"digraph": {"topology", "-o", "dot"}, "<svg": {"topology", "node/" + nodes[1], "-o", "svg"}, `"kind": "Worst"`: {"explain", "--worst", "3", "-o", "json"},
	} {
		verbTells(t, want, args...)
	}
	verbRefuses(t, says.Degraded, "there is no pod "+ns+"/none", "topology", "pod/none", "-n", ns)
}

// canary is in every place of the cluster that may have a secret.
const canary = "canary-7f3a"

// TestPlugin_SysdumpHasNoSecret, and answers as the cluster does.
func TestPlugin_SysdumpHasNoSecret(t *testing.T) {
	world.Test(t, world.Tools, world.Strict)
	ns := world.Namespace(t)
	plantCanaries(t, ns)
	path := filepath.Join(t.TempDir(), "dump.tgz")
	before := systemPods(t)
	out, code := kubectlOffload(t, "sysdump", "--file", path, "--nodes", nodes[0]+","+nodes[1])
	if code != 0 || !strings.Contains(out, path) {
		t.Fatalf("exit code %d: %s", code, out)
	}
	files := archiveFiles(t, path)
	for _, want := range []string{
		"snapshot.json", "objects/pods.json", "nodes/" + nodes[1] + "/flows-br-int.txt", "nodes/" + nodes[1] + "/routes.txt",
		"nodes/" + nodes[1] + "/datapath-flows.txt", "nodes/" + nodes[0] + "/southbound.db.gz",
	} {
		if len(files[want]) == 0 {
			t.Errorf("the archive has no %s", want)
		}
	}
	for _, of := range []string{"nodes/" + nodes[1] + "/metrics.txt", "nodes/" + nodes[0] + "/controller-metrics.txt"} {
		if !strings.Contains(files[of], "\nprocess_start_time_seconds ") {
			t.Errorf("%s: %s", of, files[of])
		}
	}
	for name, text := range files {
		if strings.Contains(text, canary) {
			t.Errorf("%s has a secret", name)
		}
	}
	for _, name := range []string{"objects/pods.json", "nodes/" + nodes[0] + "/northbound.db.gz"} {
		if !strings.Contains(files[name], ns) {
			t.Errorf("the pod with the secrets is not in %s at all", name)
		}
	}
	dumped := ofPodAlone(t, "pod/"+ns+"/web", "--from", path)
	world.Eventually(t, world.Soon, "the cluster says of the pod what the archive says", func() (bool, string) {
		live := ofPodAlone(t, "pod/"+ns+"/web")
		return live == dumped, fmt.Sprintf("the archive\n%s\nand the cluster\n%s", dumped, live)
	})
	if out, code := kubectlOffload(t, "sysdump", "--file", path); code == 0 {
		t.Errorf("it writes over a file: %s", out)
	}
	recent := filepath.Join(t.TempDir(), "recent.tgz")
	kubectlOffload(t, "sysdump", "--file", recent, "--nodes", nodes[0]+","+nodes[1], "--since", "1s")
	sameLogs(t, files, archiveFiles(t, recent), before, systemPods(t))
	redactedArchive(t, ns, files)
}

// ofPodAlone is what explain says of a pod, without what it says of the pod's node, which other tests share, and without
// streams: the kernel of a pod sends neighbor discovery at any time.
func ofPodAlone(t *testing.T, pod string, args ...string) string {
	t.Helper()
	e, _ := kubectlOffloadJSON[says.PodExplained](t, append([]string{"explain", pod}, args...)...)
	e.Header, e.PodStreams = says.Header{Kind: e.Kind}, says.PodStreams{}
	e.Problems = slices.DeleteFunc(e.Problems, func(p says.Problem) bool { return !slices.Contains(p.Objects, pod) })
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// systemPods are the names of the network's pods.
func systemPods(t *testing.T) (names []string) {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

// sameLogs compares the logs of pods that were there before and after both archives: the archive of the last second has the
// same logs, with less in them.
func sameLogs(t *testing.T, whole, recent map[string]string, before, after []string) {
	t.Helper()
	logs, letters, fewer := 0, 0, 0
	for name, text := range whole {
		path := strings.Split(name, "/") // logs/NODE/POD/CONTAINER.log
		if path[0] != "logs" || !slices.Contains(before, path[2]) || !slices.Contains(after, path[2]) {
			continue
		}
		again, ok := recent[name]
		if !ok {
			t.Errorf("of the last second there is no %s", name)
		}
		logs, letters, fewer = logs+1, letters+len(text), fewer+len(again)
	}
	if logs < 3 || fewer >= letters {
		t.Errorf("%d logs have %d letters of two hours, and %d of the last second", logs, letters, fewer)
	}
}

// redactedArchive: with --redact an archive has no name of a namespace, and no address of a pod, that the one without it has.
func redactedArchive(t *testing.T, ns string, whole map[string]string) {
	t.Helper()
	pod, err := cluster.client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "redacted.tgz")
	if out, code := kubectlOffload(t, "sysdump", "--redact", "--file", path, "--nodes", nodes[0]+","+nodes[1]); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	redacted := archiveFiles(t, path)
	for _, secret := range []string{ns, pod.Status.PodIP, `"` + nodes[1] + `"`} {
		had := false
		for _, text := range whole {
			had = had || strings.Contains(text, secret)
		}
		if !had {
			t.Errorf("the archive without --redact has no %s either", secret)
		}
		for name, text := range redacted {
			if strings.Contains(name+text, secret) || strings.HasPrefix(name, "logs/") || strings.HasSuffix(name, ".gz") {
				t.Errorf("with --redact %s has %s", name, secret)
			}
		}
	}
	if out, code := kubectlOffload(t, "topology", "--from", path); code > int(says.Degraded) || strings.Count(out, "node-") < len(nodes) || strings.Contains(out, nodes[1]+" ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func plantCanaries(t *testing.T, ns string) {
	t.Helper()
	core := cluster.client.CoreV1()
	if _, err := core.Secrets(ns).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"password": canary},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"password": canary},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := world.Pod(ns, "web", nodes[1])
	pod.Annotations = map[string]string{"example.com/password": canary, "kubectl.kubernetes.io/last-applied-configuration": canary}
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "PASSWORD", Value: canary})
	if _, err := core.Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	world.WaitPod(t, ns, pod.Name, "Running", world.IsRunning)
}

func archiveFiles(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		var content io.Reader = archive
		if strings.HasSuffix(header.Name, ".gz") {
			if content, err = gzip.NewReader(archive); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

// TestPlugin_TraceNamesWhatDecides: the policy that drops, the service that chooses, and no object where none decides.
func TestPlugin_TraceNamesWhatDecides(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	to := world.Pod(ns, "to", nodes[1])
	world.Run(t, to, world.Pod(ns, "from", nodes[2]))
	svc := tracedService(t, ns, "to", func(*corev1.ServiceSpec) {})
	toPod, toService := "pod/to:"+fmt.Sprint(world.EchoPort), "svc/"+svc.Name
	ask := func(target string) (string, int) {
		return kubectlOffload(t, "trace", "pod/from", target, "-n", ns)
	}
	world.Eventually(t, world.Soon, "the trace reaches the pod", func() (bool, string) {
		out, code := ask(toPod)
		return code == 0 && strings.Contains(out, "DELIVERED") && strings.Contains(out, ns+"_"+to.Name), out
	})
	world.Eventually(t, world.Soon, "the trace names the service", func() (bool, string) {
		out, code := ask(toService)
		return code == 0 && strings.Contains(out, "svc/"+ns+"/"+svc.Name) && strings.Contains(out,
			"load balancer: to "+netip.AddrPortFrom(world.Addresses(to)[0], world.EchoPort).String()), out
	})
	world.Eventually(t, world.Soon, "without a policy and a service the trace names none", func() (bool, string) {
		out, code := ask(toPod)
		if strings.Contains(out, "netpol/") || strings.Contains(out, "svc/") {
			t.Errorf("it names one: %s", out)
		}
		return code == 0 && strings.Contains(out, "DELIVERED"), out
	})
	world.CreatePolicy(t, ns, "deny", world.AllowPods(to.Name))
	var patch string
	world.Eventually(t, world.PolicyWithin, "the trace names the policy that drops", func() (bool, string) {
		out, code := ask(toPod)
		_, patch, _ = strings.Cut(out, "a rule that would allow it: kubectl patch netpol deny -n "+ns+" --type=json -p '")
		return code == 1 && strings.Contains(out, "dropped by netpol/"+ns+"/deny") && strings.Contains(out, "no rule allows it: netpol/"+ns+"/deny selects pod/"), out
	})
	patch, _, _ = strings.Cut(patch, "'\n")
	if _, err := cluster.client.NetworkingV1().NetworkPolicies(ns).Patch(t.Context(), "deny", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("the rule that would allow it, %q: %v", patch, err)
	}
	world.Eventually(t, world.PolicyWithin, "with this rule, the trace names it", func() (bool, string) {
		out, code := ask(toPod)
		return code == 0 && strings.Contains(strings.Join(strings.Fields(out), " "), "ingress[0]: allow-related netpol/"+ns+"/deny"), out
	})
	verbRefuses(t, says.Degraded, "there is no pod "+ns+"/none", "trace", "pod/from", "pod/none", "-n", ns)
}
