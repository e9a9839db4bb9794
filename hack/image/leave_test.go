package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// leaves runs the clean-up with programs in place of the agent's and Open vSwitch's, which record their calls. The
// namespace has no agent that the script would wait for.
func leaves(t *testing.T, cleanup int, args ...string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	for program, exit := range map[string]string{
		"ovn-offload-agent": fmt.Sprintf(`case $1 in cleanup) exit %d ;; esac`, cleanup), "ovs-vsctl": "exit 0",
	} {
		script := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s/calls\n%s\n", program, dir, exit)
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := daemon(context.Background(), dir, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); <-ended })
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			return ""
		}
		var names []string
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if words[0] == "ovs-vsctl" {
				words = []string{"", strings.Join(words[len(words)-2:], " ")}
			}
			names = append(names, words[1])
		}
		select {
		case <-ended:
			names = append(names, "ended")
		default:
		}
		return strings.Join(names, ", ")
	}
}

// TestLeaveContainer_ReleasesCleanNodesOnly: the label of the Node, and with it Open vSwitch, stays until the node is clean.
func TestLeaveContainer_ReleasesCleanNodesOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for want, tt := range map[string]struct {
		cleanup int
		args    []string
	}{
		"cleanup, del-br br-int, release": {0, []string{"leave", "--node-name=n1"}},
		"cleanup, release":                {0, []string{"leave", "--mode=host", "--node-name=n1"}},
		"cleanup, ended":                  {1, []string{"leave", "--node-name=n1"}},
		"cleanup, del-br br-int":          {0, []string{"cleanup", "--node-name=n1"}},
	} {
		calls := leaves(t, tt.cleanup, tt.args...)
		eventually(t, want, func() bool { return calls() == want })
	}
	_ = os.Remove("/tmp/cleaned") // the script's own mark
}
