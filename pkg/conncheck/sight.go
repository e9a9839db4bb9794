package conncheck

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Sight compares where packets were handled, by the flows of a test's nodes while its cases run.
type Sight struct {
	agents byexec.Agents
	// flows asks the agent of a node.
	flows   func(ctx context.Context, node string, q flowapi.Query) (*flowapi.Flows, error)
	devices Devices
	// instead replaces what the table expects, if it is not zero.
	instead Expected
	// missing is what could not be read.
	missing []string
}

// readEvery is shorter than the ten seconds for which a flow lives without a packet.
const readEvery = 3 * time.Second

// readWithin bounds one reading. The test measures: unlike a person it has the time for a node that is busy with its cases.
const readWithin = 2 * time.Minute

// ParseExpected reads a place that is expected of all packets: hardware or software; empty: the table's.
func ParseExpected(text string) (e Expected, ok bool) {
	e, ok = map[string]Expected{"": {}, "hardware": {Hardware: true}, "software": {Because: offload.ReasonOutput}}[text]
	return e, ok
}

// NewSight reads a snapshot of the time when the pods of the test are there. The flows of a host with a DPU are with the DPU,
// and are not read.
func NewSight(s *snapshot.Snapshot, cluster *sysdump.Cluster, instead Expected) (*Sight, error) {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	offloads, err := snapshot.Objects[v1alpha1.NodeOffload](s, snapshot.NodeOffloads)
	if err != nil {
		return nil, err
	}
	sight := &Sight{agents: byexec.Agents{Cluster: cluster, Pods: pods, Within: readWithin}, devices: NewDevices(pods, offloads), instead: instead}
	sight.flows = func(ctx context.Context, node string, q flowapi.Query) (*flowapi.Flows, error) {
		return sight.agents.Of(node).Flows(ctx, q)
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Missing)) {
		sight.missing = append(sight.missing, s.Missing[resource])
	}
	return sight, nil
}

// Trial is a test in a session whose pods are there.
type Trial struct {
	*Session
	At       Place
	Parallel int
	// Network is what the network itself runs.
	Network Network
	// Look begins to compare places; nil: they are not compared.
	Look func(context.Context) (*Sight, error)
	// Done gets each result as it comes, one at a time.
	Done func(Result)
}

// Run waits until the network has the objects of the cases, asks, and looks at what became of the network meanwhile.
func (t Trial) Run(ctx context.Context, cases []Case) (*Outcome, error) {
	env, err := t.Env(ctx, t.At)
	if err != nil {
		return nil, err
	}
	if err := t.Add(ctx, BlockPolicy(env)); err != nil {
		return nil, err
	}
	if err := t.Settle(ctx, cases, env, t.Parallel); err != nil {
		return nil, err
	}
	before, err := own(ctx, t.Network, t.At)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	out, err := t.cases(ctx, Runner{Env: env, Parallel: t.Parallel, Ask: t.Ask, Done: t.Done}, cases)
	if err != nil {
		return nil, err
	}
	after, err := own(ctx, t.Network, t.At)
	if err != nil {
		return nil, err
	}
	var missing []string
	out.Restarts = restarts(before, after)
	out.Errors, missing = errorsOf(ctx, t.Network, after, time.Since(begin))
	out.Missing = append(out.Missing, missing...)
	return out, ctx.Err()
}

// cases asks all cases and compares the places.
func (t Trial) cases(ctx context.Context, run Runner, cases []Case) (*Outcome, error) {
	if t.Look == nil {
		return &Outcome{Results: run.Run(ctx, cases)}, ctx.Err()
	}
	sight, err := t.Look(ctx)
	if err != nil {
		return nil, err
	}
	watch, witness := byexec.NewWatch(sight.agents, Namespace, t.At.NodeA, t.At.NodeB), NewWitness(run.Env)
	end := watch.Follow(ctx, readEvery, func(_ string, _ time.Time, flows []flowapi.Flow) { witness.Add(flows) })
	results, missing, agree := t.ask(ctx, run, sight, cases)
	end()
	witness.Judge(cases, results, sight)
	agree()
	out := &Outcome{Results: results, Missing: slices.Concat(sight.missing, missing, watch.Missing())}
	out.Drops = witness.Drops(cases)
	return out, ctx.Err()
}

// ask asks all cases, those last and alone whose counters are compared. Agree compares them when the places are there.
func (t Trial) ask(ctx context.Context, run Runner, sight *Sight, cases []Case) (results []Result, missing []string, agree func()) {
	var together []Case
	var alone []int
	for i, c := range cases {
		if len(sight.witnesses(c)) > 0 {
			alone = append(alone, i)
		} else {
			together = append(together, c)
		}
	}
	results = run.Run(ctx, together)
	var compare []func()
	for _, i := range alone {
		c, legs, begin := cases[i], sight.witnesses(cases[i]), time.Now()
		before, err := sight.count(ctx, legs)
		c.Lasts = lasts(time.Since(begin))
		end := sight.follow(ctx, legs, before)
		results = slices.Insert(results, i, run.Run(ctx, []Case{c})[0])
		after, late := end()
		if err = errors.Join(err, late); err != nil {
			missing = append(missing, err.Error())
			continue
		}
		compare = append(compare, func() { results[i].agree(legs, before, after) })
	}
	return results, missing, func() {
		for _, of := range compare {
			of()
		}
	}
}
