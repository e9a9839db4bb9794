package answer

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

const formerDir = "testdata/former/"

// formerDump reads an archive that the first version with flows and with nodes that did not answer wrote (cfba06a, of November
// 2026). It stays as it is: users keep archives longer than programs.
func formerDump(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	written, err := os.ReadFile(formerDir + "sysdump.tgz")
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Open(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// askFormer gives the answer to a verb, as --from does.
func askFormer(s *snapshot.Snapshot, verb string) (string, error) {
	var a Answer
	var err error
	switch verb {
	case "flows":
		a, err = NewStreams(s, s.Flows(""), s.UnreadFlows(""), Filter{}, 0)
	case "top", "top --by node", "top --by reason":
		_, by, ok := strings.Cut(verb, "--by ")
		if !ok {
			by = "pod"
		}
		a = NewTop(s, by, s.Summaries(""), s.UnreadSummaries(""), false)
	case "explain pod/shop/web-0":
		var e *PodExplained
		if e, err = ExplainPod(s, "shop/web-0"); err == nil {
			a, err = e, e.AddStreams(s, s.Flows(e.Node), s.UnreadFlows(e.Node), To{})
		}
	default:
		return ask(s, verb)
	}
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = Write(&out, a, "text", taken.Add(3*time.Second))
	return out.String(), err
}

// TestFormer_SysdumpIsReadByThePluginOfToday: each verb finds in it what the cluster had.
func TestFormer_SysdumpIsReadByThePluginOfToday(t *testing.T) {
	s, path := formerDump(t), formerDir+"answers.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range archive.Files {
		got, err := askFormer(s, file.Name)
		if err != nil {
			t.Fatalf("%s: %v", file.Name, err)
		}
		if *update {
			archive.Files[i].Data = []byte(got)
		} else if got != string(file.Data) {
			t.Errorf("%s: got\n%s\nwant\n%s", file.Name, got, file.Data)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
