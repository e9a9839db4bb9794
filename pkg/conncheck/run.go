package conncheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// Verdict is that of a case.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Fail Verdict = "FAIL"
	Skip Verdict = "skip"
)

// Result is what came of a case.
type Result struct {
	ID      string  `json:"id"`
	Group   string  `json:"group"`
	Verdict Verdict `json:"verdict"`
	// Text says what was seen, and where it is not what was expected, that too.
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"`
	// Places are where the packets were handled, as far as something was expected.
	Places []Placed `json:"places,omitempty"`
	// Lasted is what became of a connection of --setup-disrupt.
	Lasted *probe.Lasted `json:"lasted,omitempty"`
}

// Prober asks from a pod.
type Prober func(ctx context.Context, pod string, command []string) (probe.Reply, error)

// Runner asks cases, some at once.
type Runner struct {
	Env      Env
	Parallel int
	Ask      Prober
	// Done gets each result as it comes, one at a time.
	Done func(Result)
}

// Run gives the results in the order of the cases.
func (run Runner) Run(ctx context.Context, cases []Case) []Result {
	results := make([]Result, len(cases))
	var all errgroup.Group
	all.SetLimit(max(run.Parallel, 1))
	var one sync.Mutex
	for i, c := range cases {
		all.Go(func() error {
			r := c.run(ctx, run.Env, run.Ask)
			one.Lock()
			defer one.Unlock()
			results[i] = r
			run.Done(r)
			return nil
		})
	}
	_ = all.Wait() // none fails
	return results
}

func (c Case) run(ctx context.Context, env Env, from Prober) Result {
	q, impossible := env.Question(c)
	if impossible != "" {
		return Result{ID: c.ID, Group: c.Group, Verdict: Skip, Text: impossible}
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+answerWithin*time.Duration(c.Times)+c.Lasts)
	defer cancel()
	reply, err := from(ctx, c.From, ask(q))
	if err != nil {
		return Result{ID: c.ID, Group: c.Group, Verdict: Fail, Text: fmt.Sprintf("asking in pod %s: %v", c.From, err), Seconds: time.Since(begin).Seconds()}
	}
	r := c.Judge(reply)
	r.Seconds = time.Since(begin).Seconds()
	return r
}

// Judge compares a reply with the table.
func (c Case) Judge(reply probe.Reply) Result {
	r := Result{ID: c.ID, Group: c.Group, Verdict: OK, Text: saw(reply)}
	if reply.Outcome == probe.Unsupported {
		r.Verdict, r.Text = Skip, "the kernel has no "+c.Protocol
		return r
	}
	if wrong := c.wrong(reply); wrong != "" {
		r.Verdict, r.Text = Fail, fmt.Sprintf("%s; expected %s", r.Text, wrong)
		if reply.Error != "" {
			r.Text += " (" + reply.Error + ")"
		}
	}
	return r
}

// wrong is what was expected in place of a reply; "" for a good one.
func (c Case) wrong(reply probe.Reply) string {
	if reply.Outcome != c.Want {
		return string(c.Want)
	}
	for name := range reply.Names {
		if !slices.Contains(c.Names, name) {
			return "an answer of " + strings.Join(c.Names, " or ")
		}
	}
	saysName := len(c.Names) > 0 && c.Protocol != "icmp"
	if c.Want == probe.Reached && saysName && len(reply.Names) == 0 {
		return "an answer of " + strings.Join(c.Names, " or ")
	}
	if c.Distinct > 0 && len(reply.Names) != c.Distinct {
		return fmt.Sprintf("answers of %d of the pods %s", c.Distinct, strings.Join(c.Names, ", "))
	}
	return ""
}

func saw(reply probe.Reply) string {
	text := string(reply.Outcome)
	if len(reply.Names) > 0 {
		text += " " + strings.Join(slices.Sorted(maps.Keys(reply.Names)), ", ")
	}
	return text
}

// Await are the questions that the network must answer before the cases begin: those of the cases that go to a service, or
// to the pod whose policy came last. Objects of the test are some seconds old only; what is not answered in time fails as a
// case, and says so. The first connection of each client to a service with affinity is lost (docs/services.md).
func Await(cases []Case) []Case {
	var first []Case
	seen := map[string]bool{}
	for _, c := range cases {
		kind, _, _ := strings.Cut(c.To, "/")
		late := kind == "svc" || kind == "name" || kind == "nodeport" || c.To == "pod/blocked"
		key := fmt.Sprintf("%s %d", c.To, c.Family)
		if c.To == "svc/affinity" {
			key += c.From
		}
		if late && c.Want == probe.Reached && c.Protocol != "sctp" && c.Size == Small && !seen[key] {
			c.Distinct, c.Times, seen[key] = 0, 1, true
			first = append(first, c)
		}
	}
	return first
}
