//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ways "github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// follow runs a verb that goes on, and gives what it has written so far. End interrupts it and gives its exit code.
func follow(t *testing.T, args ...string) (written func() string, end func() int) {
	t.Helper()
	path, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	_, config := cluster.Kubectl()
	var errs bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+config), out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	end = func() int {
		defer killed.Stop()
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
		t.Log(errs.String())
		return cmd.ProcessState.ExitCode()
	}
	return func() string {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}, end
}

// TestPlugin_WatchFollowsStreams: flows --watch writes a stream when it begins, which it has not before, and again when a policy
// drops its packets, in the form of Hubble, too. top --watch writes answers until it is interrupted, which is no error.
func TestPlugin_WatchFollowsStreams(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	web, client := world.Pod(ns, "web", nodes[2]), world.Pod(ns, "client", nodes[1])
	world.Run(t, web, client)
	from, to := "pod/"+ns+"/client", "pod/"+ns+"/web"
	lines, endLines := follow(t, "flows", "-w", "-n", ns, "-o", "jsonl", "--to-pod", "web")
	top, endTop := follow(t, "top", "-w", "-n", ns, "--interval", "2s")
	list := func() (all []ways.Stream) {
		for line := range strings.Lines(lines()) {
			var s ways.Stream
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &s) != nil {
				t.Errorf("%q is no stream", line)
			}
			all = append(all, s)
		}
		return all
	}
	has := func(dropped bool) (bool, string) {
		all := list()
		return slices.ContainsFunc(all, func(s ways.Stream) bool {
			if s.To != to || s.Protocol != "udp" || s.Node != nodes[2] || s.Drops != dropped {
				return false
			}
			return s.From == from || dropped && slices.Contains(s.DecidedBy, "NetworkPolicy/"+ns+"/no-pod") // it need not match its source
		}), fmt.Sprintf("%+v", all)
	}
	world.Eventually(t, flowsWithin, "top has written twice",
		func() (bool, string) { return strings.Count(top(), "answered:") > 1, top() })
	if ok, all := has(false); ok {
		t.Errorf("before the stream: %s", all)
	}
	world.CreatePolicy(t, ns, "client", world.AllowPods("web", "client"))
	world.MustInPod(t, client, "sh", "-c", "(probe stream udp "+world.Endpoints(web)[0].String()+" </dev/null >/dev/null 2>&1 &)")
	world.Eventually(t, flowsWithin, "the stream is written", func() (bool, string) { return has(false) })
	if ok, all := has(true); ok {
		t.Errorf("before the policy: %s", all)
	}
	world.CreatePolicy(t, ns, "no-pod", world.AllowPods("web", "no-pod"))
	world.DeletePolicy(t, ns, "client")
	world.Eventually(t, flowsWithin, "the stream is written as one that is dropped", func() (bool, string) { return has(true) })
	want := fmt.Sprintf(`"destination":{"namespace":%q,"pod_name":"web"}`, ns)
	world.Eventually(t, flowsWithin, "the dropped stream in the form of Hubble", func() (bool, string) {
		out, code := kubectlOffload(t, "flows", "-n", ns, "-o", "hubble", "--verdict", "dropped")
		if strings.Contains(out, "FORWARDED") {
			t.Errorf("with --verdict dropped: %s", out)
		}
		return code == 0 && strings.Contains(out, want) && strings.Contains(out, `"verdict":"DROPPED"`), out
	})
	if code := endLines(); code != 0 {
		t.Errorf("flows: exit code %d", code)
	}
	if code := endTop(); code != 0 || !strings.Contains(top(), ns+"/client") {
		t.Errorf("top: exit code %d: %s", code, top())
	}
}
