package disrupt

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// found is what is known of the pods and their connections.
type found struct {
	pods []corev1.Pod
	// kept are the connections of each client, and silent the clients that could not be asked.
	kept   map[string]map[string]probe.Lasted
	silent map[string]string
}

// change is what the cluster did to a pod; "" for nothing.
func (f found) change(name string) string {
	for _, pod := range f.pods {
		if pod.Name != name {
			continue
		}
		switch {
		case pod.DeletionTimestamp != nil:
			return "pod " + name + " is being deleted"
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
			return fmt.Sprintf("pod %s ended: %s", name, cmp.Or(pod.Status.Reason, string(pod.Status.Phase)))
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				return "pod " + name + " restarted"
			}
		}
		return ""
	}
	return "pod " + name + " was deleted"
}

// results are those of all connections. Of one whose pods the cluster has changed there is no result of the network.
func (f found) results(longest time.Duration) (results []conncheck.Result) {
	for _, c := range Cases() {
		r := conncheck.Result{ID: c.ID, Group: c.Group, Verdict: conncheck.Skip, Text: cmp.Or(f.change(c.From), f.change(c.Names[0]), f.silent[c.From])}
		if lasted, is := f.kept[c.From][c.ID]; is && r.Text == "" {
			r = judge(c, lasted, longest)
		}
		if r.Text == "" {
			r.Text = fmt.Sprintf("pods have no IPv%d", c.Family)
		}
		results = append(results, r)
	}
	return results
}

// judge compares what became of a connection with what is expected.
func judge(c conncheck.Case, l probe.Lasted, longest time.Duration) conncheck.Result {
	r := conncheck.Result{ID: c.ID, Group: c.Group, Verdict: conncheck.OK, Seconds: l.Seconds, Lasted: &l}
	answers := fmt.Sprintf("%d answers", l.Answered)
	if c.Protocol == "udp" {
		answers += fmt.Sprintf(", %d lost", l.Lost)
	}
	var wrong string
	switch {
	case c.Want == probe.Timeout && l.Began.IsZero():
		r.Text = fmt.Sprintf("no answer to %d datagrams", l.Sent)
		return r
	case c.Want == probe.Timeout:
		r.Text, wrong = answers, "expected none, as a policy denies them"
	case l.Began.IsZero():
		r.Text, wrong = "no answer", "the connection never began"
	case l.Broken != "":
		r.Text, wrong = answers, fmt.Sprintf("the connection broke after %.0f s, at %s: %s", l.Seconds, clock(l.BrokenAt), l.Broken)
	default:
		r.Text = fmt.Sprintf("lives, %s, longest silence %.1f s", answers, l.Silence)
		if l.Silence > longest.Seconds() {
			wrong = fmt.Sprintf("from %s; expected at most %g s", clock(l.SilentFrom), longest.Seconds())
		}
	}
	if wrong != "" {
		r.Verdict, r.Text = conncheck.Fail, r.Text+", "+wrong
	}
	return r
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }
