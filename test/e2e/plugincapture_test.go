//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPlugin_CapturesPacketsOfAPod at both points, and none that the filter or another pod has. Each capture leaves an Event,
// and who has no right gets neither.
func TestPlugin_CapturesPacketsOfAPod(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	web := world.Pod(ns, "web", nodes[1])
	world.Run(t, web, world.Pod(ns, "client", nodes[0]), world.Pod(ns, "silent", nodes[1]))
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
	var answered atomic.Int64
	to := world.Addresses(web)[0].String()
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := world.InPod(ns, "client", "ping", "-c", "5", "-i", "0.3", to); err == nil {
					answered.Add(1)
				}
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	pings := "icmp or (icmp6 and (ip6[40] == 128 or ip6[40] == 129))" // "and" does not bind stronger than "or"
	c, content := captured("web", pings, "-c", "4", "--time", "90s")
	for _, p := range c.Points {
		if p.Packets != 4 || p.Unseen != "" || !strings.Contains(content, p.Point) {
			t.Errorf("%s: %d packets, unseen %q", p.Point, p.Packets, p.Unseen)
		}
	}
	for pod, filter := range map[string]string{"web": "tcp port 9", "silent": pings} {
		before := answered.Load()
		c, _ := captured(pod, filter)
		for _, p := range c.Points {
			if p.Packets != 0 {
				t.Errorf("%s: %d packets of %s with %q", p.Point, p.Packets, pod, filter)
			}
		}
		world.Eventually(t, world.Soon, "pod web answered pings meanwhile", func() (bool, string) {
			now := answered.Load()
			return now > before, fmt.Sprintf("%d, before %d", now, before)
		})
	}
	world.Eventually(t, world.Soon, "two captures have left two Events", func() (bool, string) {
		events := capturesOf(t, ns, "web")
		return events == 2, fmt.Sprint(events)
	})
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

// capturesNot: a file that is there, a pod that is not, a filter that is none, and a user without the right.
func capturesNot(t *testing.T, ns string) {
	t.Helper()
	for _, c := range []struct {
		args []string
		code says.Code
		text string
	}{
		{[]string{"pod/web", "-n", ns, "--kubeconfig", tenantOfNothing(t)}, 3, "may not create captures.ovn-offload.io"},
		{[]string{"pod/web", "-n", ns, "-w", "/dev/null"}, 64, "is there already"},
		{[]string{"pod/none", "-n", ns}, 1, "there is no pod"},
		{[]string{"pod/web", "-n", ns, "-f", "no such filter", "-w", "-"}, 3, "syntax error"},
	} {
		verbRefuses(t, c.code, c.text, append([]string{"capture"}, c.args...)...)
	}
}
