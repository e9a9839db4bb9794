//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPlugin_CapturesPacketsOfAPod at both points, and none that the filter or another pod has. Each capture leaves an Event,
// and who has no right gets neither.
func TestPlugin_CapturesPacketsOfAPod(t *testing.T) {
	world.Test(t, world.Tools)
	ns := namespace(t)
	web := running(t, ns, "web", nodes[1])
	running(t, ns, "client", nodes[0])
	running(t, ns, "silent", nodes[1])
	captured := func(pod, filter string, args ...string) (says.Captured, string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "out.pcapng")
		args = append([]string{"capture", "pod/" + pod, "-n", ns, "-f", filter, "-w", file, "-o", "json", "--time", "4s"}, args...)
		out, code := kubectlOffload(t, args...)
		var c says.Captured
		if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 || len(c.Points) != 2 {
			t.Fatalf("exit code %d, %v: %s", code, err, out)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return c, string(content)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				inPod(ns, "client", "ping", "-c", "5", "-i", "0.3", addresses(t, web)[0].String())
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	icmp := "icmp or (icmp6 and ip6[40] != 135 and ip6[40] != 136)" // "and" does not bind stronger than "or"
	c, content := captured("web", icmp, "-c", "4", "--time", "30s")
	for _, p := range c.Points {
		if p.Packets != 4 || p.Unseen != "" || !strings.Contains(content, p.Point) {
			t.Errorf("%s: %d packets, unseen %q", p.Point, p.Packets, p.Unseen)
		}
	}
	for pod, filter := range map[string]string{"web": "tcp port 9", "silent": icmp} {
		c, _ := captured(pod, filter)
		for _, p := range c.Points {
			if p.Packets != 0 {
				t.Errorf("%s: %d packets of %s with %q", p.Point, p.Packets, pod, filter)
			}
		}
	}
	if events := capturesOf(t, ns, "web"); events != 2 {
		t.Errorf("%d Events of two captures", events)
	}
	capturesNot(t, ns)
}

func capturesOf(t *testing.T, ns, pod string) int {
	t.Helper()
	list, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list.Items {
		if e.Reason == "Captured" && e.InvolvedObject.Name == pod && e.Type == corev1.EventTypeNormal {
			n++
		}
	}
	return n
}

// capturesNot: wrong commands, pods without an interface, and a user without the right, before anything is read.
func capturesNot(t *testing.T, ns string) {
	t.Helper()
	_, path := cluster.Kubectl()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "tenant"
	}
	tenant := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, tenant); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"pod/web", "-n", ns, "--kubeconfig", tenant}, 3, "may not create captures.ovn-offload.io"},
		{[]string{"pod/web", "-n", ns, "-w", "/dev/null"}, 64, "file exists"},
		{[]string{"pod/none", "-n", ns}, 1, "there is no pod"},
		{[]string{"web", "-n", ns}, 64, "want pod/NAME"},
		{[]string{"pod/web", "-n", ns, "--count", "0"}, 64, "--count"},
		{[]string{"pod/web", "-n", ns, "-f", "no such filter", "-w", filepath.Join(t.TempDir(), "x")}, 3, "syntax error"},
	} {
		if out, code := kubectlOffload(t, append([]string{"capture"}, c.args...)...); code != c.code || !strings.Contains(out, c.text) {
			t.Errorf("%v: exit code %d, want %d with %q: %s", c.args, code, c.code, c.text, out)
		}
	}
}
