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

// kubectlOffloadJSON reads the answer of a verb.
func kubectlOffloadJSON[T any](t *testing.T, args ...string) (a T, code int) {
	t.Helper()
	out, code := kubectlOffload(t, append(args, "-o", "json")...)
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
	ns := namespace(t)
	running(t, ns, "web", nodes[2])
	client := running(t, ns, "client", nodes[1])
	running(t, ns, "silent", nodes[1])
	createPolicy(t, ns, "lets-client", allowIngress("web", "client"))
	web := tracedService(t, ns, "web", nil)
	mustInPod(t, client, "sh", "-c", "(probe stream tcp "+frontends(web)[0]+" </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid)")
	from := "pod/" + ns + "/client"
	verbs := map[string]func() (bool, any){
		"top by pod": func() (bool, any) {
			top, _ := kubectlOffloadJSON[says.Top](t, "top", "--interval", "2s")
			return slices.ContainsFunc(top.Rows, func(r says.TopRow) bool {
				return r.Name == ns+"/client" && r.Node == nodes[1] && r.Rate != nil && *r.Rate > 10
			}), top
		},
		"top by stream": func() (bool, any) {
			top, _ := kubectlOffloadJSON[says.Top](t, "top", "--by", "stream", "-n", ns)
			return slices.ContainsFunc(top.Rows, func(r says.TopRow) bool { return strings.HasPrefix(r.Name, from+" > svc/"+ns+"/"+web.Name) }), top
		},
		"explain of the service": func() (bool, any) {
			d, _ := kubectlOffloadJSON[says.Deciding](t, "explain", "svc/"+web.Name, "-n", ns)
			return slices.ContainsFunc(d.Streams, func(s ways.Stream) bool { return s.From == from && s.To == "svc/"+ns+"/"+web.Name }), d
		},
		"explain of the policy": func() (bool, any) {
			d, _ := kubectlOffloadJSON[says.Deciding](t, "explain", "netpol/lets-client", "-n", ns)
			return d.Selected != nil && *d.Selected == 1 && slices.ContainsFunc(d.Streams, func(s ways.Stream) bool {
				return s.To == "pod/"+ns+"/web" && slices.Contains(s.DecidedBy, "NetworkPolicy/"+ns+"/lets-client")
			}), d
		},
		"explain of the pod to the service": func() (bool, any) {
			return explainedStream(t, ns, web.Name, fmt.Sprint(servicePort))
		},
		"explain of a flow": func() (bool, any) {
			_, e := explainedStream(t, ns, web.Name, fmt.Sprint(servicePort))
			if len(e.Streams) == 0 {
				return false, e
			}
			out, code := kubectlOffload(t, "explain", "flow", e.Streams[0].Flows[0]+"@"+nodes[1], "-o", "json")
			if code == 1 && strings.Contains(out, "there is no flow") {
				return false, out // it ended after the first answer
			}
			f := answerIn[says.FlowExplained](t, out)
			return len(f.Streams) > 0 && f.Streams[0].From == from && slices.ContainsFunc(f.Steps, func(s says.LiveStep) bool {
				return slices.Contains(s.Objects, "Service/"+ns+"/"+web.Name)
			}), f
		},
		"trace --live": func() (bool, any) {
			l, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/client", fmt.Sprintf("svc/%s:%d", web.Name, servicePort), "-n", ns)
			on := func(node string) bool {
				return slices.ContainsFunc(l.Legs, func(leg says.Leg) bool { return leg.Node == node && !leg.Back })
			}
			return l.Verdict == "allowed" && code == 0 && on(nodes[1]) && on(nodes[2]), l
		},
	}
	for verb, has := range verbs {
		eventually(t, flowsWithin, verb+" has the stream", func() (bool, string) {
			ok, answer := has()
			return ok, fmt.Sprintf("%+v", answer)
		})
	}
	silent, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/silent", "svc/"+web.Name, "-n", ns)
	if silent.Verdict != "idle" || code != 1 {
		t.Errorf("of a pod that sends nothing: exit code %d, %+v", code, silent)
	}
	if ok, e := explainedStream(t, ns, web.Name, "1"); ok {
		t.Errorf("to another port: %+v", e)
	}
	mustInPod(t, client, "sh", "-c", "kill $(cat /tmp/pid)")
	for verb, has := range verbs {
		eventually(t, flowsWithin, verb+" has the stream no longer", func() (bool, string) {
			ok, answer := has()
			return !ok, fmt.Sprintf("%+v", answer)
		})
	}
	for _, wrong := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"explain", "svc/none", "-n", ns}, 1, "there is no service " + ns + "/none"},
		{[]string{"explain", "netpol/none", "-n", ns}, 1, "there is no NetworkPolicy " + ns + "/none"},
		{[]string{"trace", "--live", "pod/client", "svc/none", "-n", ns}, 1, ns + "/none"},
		{[]string{"explain", "flow", "none@" + nodes[1]}, 1, "there is no flow none"},
		{[]string{"explain", "flow", "none"}, 64, "want UFID@NODE"},
		{[]string{"top", "--by", "cloud"}, 64, "want one of pod"},
		{[]string{"top", "--node", "none"}, 1, "there is no agent of node none"},
		{[]string{"flows", "--node", "none"}, 1, "give --dpu-context"},
	} {
		if out, code := kubectlOffload(t, wrong.args...); code != wrong.code || !strings.Contains(out, wrong.text) {
			t.Errorf("%v: exit code %d, want %d with %q: %s", wrong.args, code, wrong.code, wrong.text, out)
		}
	}
}
