package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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
	} {
		if out, code := run(t, wrong, config); code != int(answer.Usage) || !strings.Contains(out, text) {
			t.Errorf("%s: exit code %d, want %d with %q: %s", wrong, code, answer.Usage, text, out)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("wrong commands asked the cluster %d times", n)
	}
	// the control: of an answer the format is known once it is written
	if out, code := run(t, "status -o xml", config); code != int(answer.Usage) || asked.Load() == 0 {
		t.Errorf("status -o xml: exit code %d, the cluster was asked %d times: %s", code, asked.Load(), out)
	}
}
