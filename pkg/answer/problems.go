package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Severity says how bad a problem is.
type Severity string

// The severities, the worst first, in the order of the alphabet. Degraded works in part. A notice is worth knowing, and all
// works: it changes no exit code.
const (
	SeverityBroken   Severity = "broken"
	SeverityDegraded Severity = "degraded"
	SeverityNotice   Severity = "notice"
)

// Problem is one thing that an administrator has to do something about.
type Problem struct {
	Severity Severity `json:"severity"`
	// Objects have the problem, such as node/worker-1. There are at most ten; Omitted counts the others.
	Objects []string `json:"objects"`
	Omitted int      `json:"omitted,omitempty"`
	Message string   `json:"message"`
	// Since is when it began, if that is known.
	Since *time.Time `json:"since,omitempty"`
	// See is the name of a page, for kubectl offload help.
	See string `json:"see"`
}

// verdict is the exit code of an answer with problems.
func verdict(code Code, problems []Problem) Code {
	for _, p := range problems {
		switch {
		case p.Severity == SeverityBroken:
			return Broken
		case p.Severity == SeverityDegraded && code == Good:
			code = Degraded
		}
	}
	return code
}

func (p Problem) next() string {
	if object := p.Objects[0]; strings.HasPrefix(object, "pod/") || strings.HasPrefix(object, "node/") {
		return "kubectl offload explain " + object
	}
	return "kubectl offload help " + p.See
}

// maxObjects bounds the names of one problem.
const maxObjects = 10

// problems are all, each of one object.
func (f *facts) problems() []Problem {
	return slices.Concat(f.componentProblems(), f.nodeProblems(), f.offloadProblems(), freeProblems(f.offloads), f.trafficProblems(), f.policyProblems(), f.eventProblems())
}

// group makes one problem of those of several objects that are the same. The worst are first, then those of most objects.
func group(all []Problem) []Problem {
	var out []Problem
	at := map[string]int{}
	for _, p := range all {
		key := string(p.Severity) + p.Message + p.See
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, p)
			continue
		}
		if len(out[i].Objects) == maxObjects {
			out[i].Omitted++
		} else if !slices.Contains(out[i].Objects, p.Objects[0]) {
			out[i].Objects = append(out[i].Objects, p.Objects[0])
		}
		if p.Since != nil && (out[i].Since == nil || p.Since.Before(*out[i].Since)) {
			out[i].Since = p.Since
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(len(b.Objects)+b.Omitted, len(a.Objects)+a.Omitted), cmp.Compare(a.Objects[0], b.Objects[0]))
	})
	return out
}

func (f *facts) componentProblems() []Problem {
	var out []Problem
	for _, c := range f.components {
		if c.Ready.Ready >= c.All {
			continue
		}
		p := Problem{Severity: SeverityDegraded, Objects: []string{"workload/" + c.Name}, See: "control-plane-down"}
		p.Message = fmt.Sprintf("%d of %d ready", c.Ready.Ready, c.All)
		if c.Ready.Ready == 0 {
			p.Severity = SeverityBroken
		}
		out = append(out, p)
	}
	if lease, ok := f.leases[f.namespace+"/"+leaderLease]; ok {
		if since := f.expired(lease); since > 0 {
			out = append(out, Problem{
				Severity: SeverityBroken, Objects: []string{"lease/" + leaderLease}, See: "control-plane-down", Since: f.ago(since),
				Message: "no controller leads: its Lease has ended",
			})
		}
	}
	return out
}

func (f *facts) ago(d time.Duration) *time.Time {
	at := f.taken.Add(-d).Truncate(time.Second)
	return &at
}

func (f *facts) nodeProblems() []Problem {
	var out []Problem
	for _, n := range f.nodes {
		object := []string{"node/" + n.Name}
		for _, c := range n.Status.Conditions {
			since := c.LastTransitionTime.UTC()
			switch {
			case c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue:
				out = append(out, Problem{Severity: SeverityBroken, Objects: object, Message: cmp.Or(c.Message, "the network is unavailable"), Since: &since, See: "NodeHasNoSubnet"})
			case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
				out = append(out, Problem{Severity: SeverityBroken, Objects: object, Message: "not Ready: " + c.Message, Since: &since, See: "agent-not-ready"})
			}
		}
	}
	for _, host := range f.dpuHosts() {
		if since, message := f.dpu(host); message != "" {
			out = append(out, Problem{Severity: SeverityBroken, Objects: []string{"node/" + host}, Message: message, Since: f.ago(since), See: "DPUNotReady"})
		}
	}
	return out
}

func (f *facts) offloadProblems() []Problem {
	var out []Problem
	for _, n := range f.offloads {
		object := []string{"node/" + n.Name}
		if n.Status.Offload == v1alpha1.OffloadOff {
			severity := SeverityDegraded
			if n.Status.Reason == v1alpha1.OffNoSwitchdev && len(n.Status.Policies) == 0 {
				severity = SeverityNotice // no OffloadPolicy asks for it
			}
			out = append(out, Problem{Severity: severity, Objects: object, Message: "offload is off: " + n.Status.Reason, See: "offload-off"})
		}
		for _, message := range n.Status.Problems {
			out = append(out, Problem{Severity: SeverityDegraded, Objects: object, Message: message, See: "inventory"})
		}
	}
	return out
}

// freeProblems are nodes on which the VFs for pods run out. Those that pods do not get at all do not count. It is a notice: all pods of
// the node have what they asked for.
func freeProblems(of []v1alpha1.NodeOffload) []Problem {
	var out []Problem
	for _, n := range of {
		if v := n.Status.VFs; v.Used > 0 && v.Free*fewFree < v.Used+v.Free {
			out = append(out, Problem{
				Severity: SeverityNotice, Objects: []string{"node/" + n.Name}, See: "no-vfs",
				Message: fmt.Sprintf("fewer than one in %d of its VFs for pods is free", fewFree),
			})
		}
	}
	return out
}

// fewFree is the part of a node's VFs that should be free.
const fewFree = 10

// trafficProblems are pods with lasting traffic outside hardware. New connections are no problem.
func (f *facts) trafficProblems() []Problem {
	var out []Problem
	for _, n := range f.offloads {
		for _, t := range n.Status.Traffic {
			if t.Packets.Hardware >= mostlyHardware || len(t.Outside) == 0 || t.Outside[0].Reason == reasonNew {
				continue
			}
			out = append(out, Problem{
				Severity: SeverityDegraded, Objects: []string{"pod/" + t.Pod}, See: "OutsideHardware",
				Message: fmt.Sprintf("%d %% of its packets in hardware; outside because of %s", t.Packets.Hardware, because(t.Outside[0])),
			})
		}
	}
	return out
}

const (
	mostlyHardware = 90 // percent; the Event OutsideHardware has the same limit
	reasonNew      = "new-connection"
)

func because(o v1alpha1.OutsideHardware) string {
	if o.Detail == "" {
		return o.Reason
	}
	return o.Reason + " (" + o.Detail + ")"
}

func (f *facts) policyProblems() []Problem {
	var out []Problem
	for _, policy := range f.policies {
		applied := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionApplied)
		if policy.Status.Failed == 0 || applied == nil {
			continue
		}
		since := applied.LastTransitionTime.UTC()
		out = append(out, Problem{
			Severity: SeverityDegraded, Objects: []string{"offloadpolicy/" + policy.Name}, See: "OffloadPolicyNotApplied", Since: &since,
			Message: fmt.Sprintf("not applied on %d of %s: %s", policy.Status.Failed, plural(policy.Status.Selected, "node"), applied.Message),
		})
	}
	return out
}

func printProblems(p *Page, problems []Problem, taken time.Time) {
	if len(problems) == 0 {
		p.Line("no problems in what could be read")
		return
	}
	rows := [][]string{{"PROBLEM", "OBJECT", "SINCE", "SEE", "MESSAGE"}}
	for _, problem := range problems {
		object, since := problem.Objects[0], ""
		if more := len(problem.Objects) + problem.Omitted - 1; more > 0 {
			object = fmt.Sprintf("%s and %d more", object, more)
		}
		if problem.Since != nil {
			since = age(taken.Sub(*problem.Since))
		}
		rows = append(rows, []string{string(problem.Severity), object, since, problem.See, problem.Message})
	}
	p.Table(rows)
}
