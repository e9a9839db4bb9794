//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	ways "github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// kubectlOffloadJSON reads the answer of a verb. A verb that did not get its facts in time has an empty answer.
func kubectlOffloadJSON[T any](t *testing.T, args ...string) (a T, code int) {
	t.Helper()
	out, code := kubectlOffload(t, append(args, "-o", "json")...)
	if code == int(says.Uncertain) && strings.HasPrefix(out, "kubectl offload: ") {
		t.Logf("%q: %s", args, out)
		return a, code
	}
	return answerIn[T](t, out), code
}

// answerIn is the answer that a verb wrote as JSON.
func answerIn[T any](t *testing.T, out string) (a T) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

// explainedStream is explain of the client's stream to a service and port.
func explainedStream(t *testing.T, ns, service, port string) (bool, says.PodExplained) {
	t.Helper()
	e, _ := kubectlOffloadJSON[says.PodExplained](t, "explain", "pod/client", "--to", "svc/"+service, "--port", port, "-n", ns)
	return slices.ContainsFunc(e.Streams, func(s ways.Stream) bool { return s.To == "svc/"+ns+"/"+service && s.Port == port }), e
}

// TestPlugin_StreamsEndWithTheirClient: top, explain of a service and of a policy, and trace --live have the stream of a
// client of the service while the client sends, and not when it has stopped. Names that do not exist are refused.
func TestPlugin_StreamsEndWithTheirClient(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	client := world.Pod(ns, "client", nodes[1])
	world.Run(t, world.Pod(ns, "web", nodes[2]), client, world.Pod(ns, "silent", nodes[1]))
	world.CreatePolicy(t, ns, "lets-client", world.AllowPods("web", "client"))
	web := tracedService(t, ns, "web", nil)
	world.MustInPod(t, client, "sh", "-c", "(probe stream tcp "+world.Frontends(web)[0]+" </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid)")
	from := "pod/" + ns + "/client"
	verbs := map[string]func() (bool, says.Answer){
		"top by pod": func() (bool, says.Answer) {
			top, _ := kubectlOffloadJSON[says.Top](t, "top", "--interval", "2s", "--node", nodes[1])
			return slices.ContainsFunc(top.Rows, func(r says.TopRow) bool {
				return r.Name == ns+"/client" && r.Node == nodes[1] && r.Rate != nil && *r.Rate > 10
			}), &top
		},
		"top by stream": func() (bool, says.Answer) {
			top, _ := kubectlOffloadJSON[says.Top](t, "top", "--by", "stream", "-n", ns)
			return slices.ContainsFunc(top.Rows, func(r says.TopRow) bool { return strings.HasPrefix(r.Name, from+" > svc/"+ns+"/"+web.Name) }), &top
		},
		"explain of the service": func() (bool, says.Answer) {
			d, _ := kubectlOffloadJSON[says.Deciding](t, "explain", "svc/"+web.Name, "-n", ns)
			return slices.ContainsFunc(d.Streams, func(s ways.Stream) bool { return s.From == from && s.To == "svc/"+ns+"/"+web.Name }), &d
		},
		"explain of the policy": func() (bool, says.Answer) {
			d, _ := kubectlOffloadJSON[says.Deciding](t, "explain", "netpol/lets-client", "-n", ns)
			return d.Selected != nil && *d.Selected == 1 && slices.ContainsFunc(d.Streams, func(s ways.Stream) bool {
				return s.To == "pod/"+ns+"/web" && slices.Contains(s.DecidedBy, "NetworkPolicy/"+ns+"/lets-client")
			}), &d
		},
		"explain of the pod to the service": func() (bool, says.Answer) {
			ok, e := explainedStream(t, ns, web.Name, fmt.Sprint(world.ServicePort))
			return ok, &e
		},
		"explain of a flow": func() (bool, says.Answer) {
			_, e := explainedStream(t, ns, web.Name, fmt.Sprint(world.ServicePort))
			if len(e.Streams) == 0 {
				return false, &e
			}
			out, code := kubectlOffload(t, "explain", "flow", e.Streams[0].Flows[0]+"@"+nodes[1], "-o", "json")
			if code != 0 && !strings.HasPrefix(out, "{") { // it ended after the first answer
				return false, &says.FlowExplained{Header: says.Header{Missing: []string{out}}}
			}
			f := answerIn[says.FlowExplained](t, out)
			return len(f.Streams) > 0 && f.Streams[0].From == from && slices.ContainsFunc(f.Steps, func(s says.LiveStep) bool {
				return slices.Contains(s.Objects, "Service/"+ns+"/"+web.Name)
			}), &f
		},
		"trace --live": func() (bool, says.Answer) {
			l, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/client",
				fmt.Sprintf("svc/%s:%d", web.Name, world.ServicePort), "-n", ns)
			on := func(node string) bool {
				return slices.ContainsFunc(l.Legs, func(leg says.Leg) bool { return leg.Node == node && !leg.Back })
			}
			return l.Verdict == "allowed" && code == 0 && on(nodes[1]) && on(nodes[2]), &l
		},
	}
	for verb, has := range verbs {
		world.Eventually(t, flowsWithin, verb+" has the stream", func() (bool, string) {
			ok, answer := has()
			return ok, fmt.Sprintf("%+v", answer)
		})
	}
	world.Eventually(t, flowsWithin, "a pod that sends nothing is idle", func() (bool, string) {
		silent, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/silent", "svc/"+web.Name, "-n", ns)
		if silent.Verdict == says.Allowed {
			t.Fatalf("of a pod that sends nothing: exit code %d, %+v", code, silent)
		}
		return silent.Verdict == says.Idle && code == 1, fmt.Sprintf("exit code %d, %+v", code, silent)
	})
	world.Eventually(t, flowsWithin, "the client has no stream to another port", func() (bool, string) {
		ok, e := explainedStream(t, ns, web.Name, "1")
		if ok {
			t.Fatalf("to another port: %+v", e)
		}
		return e.Pod != "" && len(e.Missing) == 0, fmt.Sprintf("%+v", e)
	})
	world.MustInPod(t, client, "sh", "-c", "kill $(cat /tmp/pid)")
	for verb, has := range verbs {
		world.Eventually(t, flowsWithin, verb+" has the stream no longer", func() (bool, string) {
			ok, answer := has()
			return !ok && answer.Head().Kind != "" && len(answer.Head().Missing) == 0, fmt.Sprintf("%+v", answer)
		})
	}
	for _, wrong := range []struct {
		args []string
		code says.Code
		text string
	}{
		{[]string{"explain", "svc/none", "-n", ns}, 1, "there is no service " + ns + "/none"},
		{[]string{"explain", "netpol/none", "-n", ns}, 1, "there is no NetworkPolicy " + ns + "/none"},
		{[]string{"trace", "--live", "pod/client", "svc/none", "-n", ns}, 1, ns + "/none"},
		{[]string{"explain", "flow", "none@" + nodes[1]}, 1, "there is no flow none"},
		{[]string{"top", "--node", "none"}, 1, "there is no agent of node none"},
		{[]string{"flows", "--node", "none"}, 1, "give --dpu-context"},
	} {
		verbRefuses(t, wrong.code, wrong.text, wrong.args...)
	}
}
