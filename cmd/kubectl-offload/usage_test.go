package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
)

// TestVerbs_WrongUseNeedsNoCluster: a wrong command ends with the exit code for that and says what is wrong, before a cluster
// is asked.
func TestVerbs_WrongUseNeedsNoCluster(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	config := kubeconfigOf(t, server)
	for wrong, text := range map[string]string{
		"capture web -n shop":                        "want pod/NAME",
		"capture pod/web -n shop --count 0":          "--count",
		"capture pod/web -n shop --at nowhere":       "nowhere",
		"explain":                                    "--worst",
		"explain deployment/web":                     "want pod/NAME",
		"explain flow none":                          "want UFID@NODE",
		"flows --place cloud":                        "cloud",
		"flows -w --from archive.tgz":                "no archive",
		"flows -w -o yaml":                           "-o yaml with --watch",
		"lint":                                       "want -f FILE or --all",
		"lint -f /no/such/file":                      "no such file",
		"nb":                                         "requires at least 1 arg",
		"ovs w1":                                     "requires at least 2 arg",
		"perf --from w1":                             "--from and --to",
		"perf --from w1 --to w1":                     "two nodes",
		"perf --run (":                               "missing closing",
		"perf --run ^stream/vf-":                     "--resource",
		"perf --size 70000":                          "a datagram has at most",
		"perf --streams 0":                           "1 to 128",
		"perf --time 0s":                             "1s to 1h",
		"status --from /no/such/file":                "no such file",
		"status --no-such-flag":                      "no-such-flag",
		"sysdump --since 0s":                         "--since=0s",
		"test --check-disrupt --max-silence 0s":      "--max-silence=0s",
		"test --expect tc":                           "want hardware or software",
		"test --external example.com:443":            "example.com",
		"test --nodes w1":                            "want two",
		"test --quick --full":                        "want --quick or --full",
		"test --run (":                               "missing closing",
		"test --run no-such-case":                    "matches no case",
		"test --setup-disrupt --check-disrupt":       "want --setup-disrupt",
		"top --by cloud":                             "want one of pod",
		"top -w -o json":                             "-o json with --watch",
		"topology svc/web -n shop":                   "want node/NAME or pod/NAME",
		"trace --inject --yes node/w1 pod/web:9/udp": "is no pod",
		"trace --inject --yes --live pod/web pod/db:9/udp":   "want --live or --inject",
		"trace --inject --yes outside pod/web:9/udp -n shop": "is no pod",
		"trace --compare pod/web pod/db:9/udp":               "--compare",

		"sttaus":                           "Did you mean status?",
		"nothing":                          "kubectl offload has no verb",
		"dpu jion w1":                      "Did you mean join?",
		"dpu nothing":                      "kubectl offload dpu has no verb",
		"completion nothing":               "kubectl offload completion has no verb",
		"dpu join":                         "accepts 1 arg",
		"status 5m":                        "a time after --wait",
		"status --wait soon":               "a time after --wait",
		"status --wait=-1s":                "--wait=-1s",
		"topology -o svg":                  "a drawing is of one node",
		"topology pod/web -o dot":          "is of nodes",
		"explain pod/web --worst=-1":       "--worst=-1",
		"explain pod/web --to job/a":       "--to",
		"explain pod/web --port http":      "--port",
		"flows --last -1":                  "--last=-1",
		"flows --min-pps -1":               "--min-pps",
		"flows --protocol htpt":            "--protocol",
		"flows --port 70000":               "--port",
		"flows --reason none":              "--reason",
		"flows --verdict maybe":            "--verdict",
		"sysdump --max-nodes 0":            "--max-nodes=0",
		"sysdump --max-size 0":             "--max-size=0",
		"sysdump -f usage_test.go":         "is there already",
		"capture pod/web -w usage_test.go": "is there already",
		"lint --all -f /no/such/file":      "no such file",
		"test --junit /no/such/dir/a.xml":  "no such file",
		"test --parallel 0":                "--parallel=0",
		"top --interval -1s":               "--interval=-1s",
		"trace web svc/db":                 "want pod/NAME, node/NAME or outside",
		"trace pod/web db":                 "want pod/NAME, svc/NAME",
		"trace pod/web 192.0.2.7":          "want a port",
		"trace pod/web svc/db:x":           "is no port",
		"trace outside/x svc/db":           "outside/ADDRESS",
		"trace pod/web svc/db --count 0":   "--count=0",
	} {
		if out, code := run(t, wrong, config); code != int(answer.Usage) || !strings.Contains(out, text) {
			t.Errorf("%s: exit code %d, want %d with %q: %s", wrong, code, answer.Usage, text, out)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("wrong commands asked the cluster %d times", n)
	}
	for wrong, text := range map[string]string{
		"help status explain": "accepts at most 1 arg", "help no-such-page": "no verb or page", "sttaus": "Did you mean status?", "--no-such-flag": "unknown flag",
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(wrong))
		err := cmd.ExecuteContext(t.Context())
		if code, _ := exitCode(err); code != int(answer.Usage) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: exit code %d, %v", wrong, code, err)
		}
	}
	// the control: right commands ask it
	for _, right := range []string{"status -o json", "topology node/w1 -o svg", "status --wait=1ns", "flows -o jsonl --protocol 47 --port 82/0xfffe"} {
		if out, code := run(t, right, config); code == int(answer.Usage) || asked.Swap(0) == 0 {
			t.Errorf("%s: exit code %d: %s", right, code, out)
		}
	}
}

// TestVerbs_RefuseOtherWords: each flag of each verb that takes one of some words refuses another before the cluster is asked, and takes
// its own. All verbs with an answer have such a flag.
func TestVerbs_RefuseOtherWords(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	config, found := kubeconfigOf(t, server), 0
	for _, verb := range command().Commands() {
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			of, ok := f.Value.(flags.Choice)
			if f.Name == "output" && !ok {
				t.Errorf("%s --output takes any word", verb.Name())
			}
			if !ok {
				return
			}
			found++
			if out, code := run(t, verb.Name()+" --"+f.Name+" jsn", config); code != int(answer.Usage) || !strings.Contains(out, "want one of "+of.Words[0]) {
				t.Errorf("%s --%s jsn: exit code %d: %s", verb.Name(), f.Name, code, out)
			}
			for _, word := range of.Words {
				if err := f.Value.Set(word); err != nil {
					t.Errorf("%s --%s %s: %v", verb.Name(), f.Name, word, err)
				}
			}
		})
	}
	if found < 12 || asked.Load() > 0 {
		t.Errorf("%d flags take words, and the cluster was asked %d times", found, asked.Load())
	}
}

// TestStatus_WaitsWithoutATime: --wait may have a time after it, with or without an equals sign, or none.
func TestStatus_WaitsWithoutATime(t *testing.T) {
	for args, want := range map[string]time.Duration{"--wait": 5 * time.Minute, "--wait 7s": 7 * time.Second, "--wait=9s": 9 * time.Second, "": 0} {
		var o statusOptions
		cmd := o.command()
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.readPatience(cmd, args) }
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.Execute(); err != nil || o.patience != want {
			t.Errorf("status %s: %v, waits %s, want %s", args, err, o.patience, want)
		}
	}
}
