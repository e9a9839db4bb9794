package conncheck

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Outcome is what came of a test.
type Outcome struct {
	Results []Result
	// Missing is what could not be read.
	Missing []string
	Final
}

// Final is what happened in the network itself while the cases ran.
type Final struct {
	// Restarts are containers of the network that restarted. They fail the test.
	Restarts []string `json:"restarts,omitempty"`
	// Errors are the last lines of level error in the logs of each container, and Drops the dropped streams between pods of the
	// test for which no case expects silence. Both may have other causes than the test.
	Errors []string `json:"errors,omitempty"`
	Drops  []string `json:"drops,omitempty"`
}

// Network reads the pods of the network itself.
type Network interface {
	// PodsAt are those on a node, and PodsOf those of an app.
	PodsAt(ctx context.Context, node string) ([]corev1.Pod, error)
	PodsOf(ctx context.Context, app string) ([]corev1.Pod, error)
	LogSince(ctx context.Context, of sysdump.Container, since time.Duration, limit int64) ([]byte, error)
}

// own are the network's pods that a test concerns: those on its nodes, and the controllers.
func own(ctx context.Context, network Network, at Place) (pods []corev1.Pod, err error) {
	for _, node := range []string{at.NodeA, at.NodeB} {
		here, err := network.PodsAt(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("reading the network's pods on node %s: %w", node, err)
		}
		pods = append(pods, here...)
	}
	controllers, err := network.PodsOf(ctx, "ovnkube-master")
	if err != nil {
		return nil, fmt.Errorf("reading the controllers' pods: %w", err)
	}
	for _, pod := range controllers {
		if pod.Spec.NodeName != at.NodeA && pod.Spec.NodeName != at.NodeB {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// restarts are the containers that have restarted between two readings. Pods that came or went are not counted.
func restarts(before, after []corev1.Pod) (out []string) {
	for _, pod := range after {
		at := slices.IndexFunc(before, func(p corev1.Pod) bool { return p.UID == pod.UID })
		if at < 0 {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			for _, earlier := range before[at].Status.ContainerStatuses {
				if n := c.RestartCount - earlier.RestartCount; earlier.Name == c.Name && n > 0 {
					out = append(out, fmt.Sprintf("container %s of pod %s on node %s restarted %d times", c.Name, pod.Name, pod.Spec.NodeName, n))
				}
			}
		}
	}
	return out
}

// errorLine is a line of level error: of OVN and Open vSwitch, or of the project's programs.
var errorLine = regexp.MustCompile(`\|(ERR|EMER)\||"level":"ERROR"`)

// logTail bounds what is read of a log, and errorsShown the lines of one that are shown.
const (
	logTail     = 256 << 10
	errorsShown = 3
)

// errorsOf reads the logs of pods.
func errorsOf(ctx context.Context, network Network, pods []corev1.Pod, since time.Duration) (lines, missing []string) {
	for _, pod := range pods {
		for _, c := range pod.Spec.Containers {
			text, err := network.LogSince(ctx, sysdump.Container{Pod: pod.Name, Name: c.Name}, since, logTail)
			if err != nil {
				missing = append(missing, fmt.Sprintf("the log of %s of pod %s: %v", c.Name, pod.Name, err))
				continue
			}
			var found []string
			for line := range bytes.Lines(text) {
				if errorLine.Match(line) {
					found = append(found, fmt.Sprintf("%s of pod %s: %s", c.Name, pod.Name, bytes.TrimSpace(line)))
				}
			}
			if n := len(found); n > errorsShown {
				found = append(found[n-errorsShown:], fmt.Sprintf("%s of pod %s: %d more", c.Name, pod.Name, n-errorsShown))
			}
			lines = append(lines, found...)
		}
	}
	return lines, missing
}

// Drops are the dropped streams between two pods of the test of which no case expects silence.
func (w *Witness) Drops(cases []Case) (out []string) {
	expected := map[[2]string]bool{}
	for _, c := range cases {
		switch {
		case c.Want != probe.Reached:
			expected[[2]string{c.From, last(c.To)}] = true
		case c.To == "svc/affinity": // the first connection of a client is lost (docs/services.md)
			for _, name := range append(c.Names, last(c.To)) {
				expected[[2]string{c.From, name}] = true
			}
		}
	}
	for s := range w.dropped {
		from, ours := strings.CutPrefix(s.From, "pod/"+Namespace+"/")
		if ours && strings.Contains(s.To, "/"+Namespace+"/") && !expected[[2]string{from, last(s.To)}] {
			out = append(out, fmt.Sprintf("%s to %s, %s, on node %s", s.From, s.To, s.Protocol, s.node))
		}
	}
	slices.Sort(out)
	return out
}

// last is the name of KIND/NAME.
func last(object string) string { return object[strings.LastIndex(object, "/")+1:] }
