package answer

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/docs"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

var update = flag.Bool("update", false, "write the wanted answers again")

var taken = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cluster reads objects in YAML. Their kinds name the resources.
func cluster(t *testing.T, text []byte) *snapshot.Snapshot {
	t.Helper()
	resources := map[string]snapshot.Resource{
		"Node": snapshot.Nodes, "Pod": snapshot.Pods, "Event": snapshot.Events, "Lease": snapshot.Leases, "Deployment": snapshot.Deployments,
		"DaemonSet": snapshot.DaemonSets, "StatefulSet": snapshot.StatefulSets, "NodeOffload": snapshot.NodeOffloads,
		"OffloadPolicy": snapshot.OffloadPolicies, "UserDefinedNetwork": snapshot.UserDefinedNetworks,
	}
	s := snapshot.New(taken, "ovn-kubernetes")
	for _, document := range strings.Split(string(text), "\n---\n") {
		var object map[string]any
		if err := utilyaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		if kind, _ := object["kind"].(string); kind == "Forbidden" {
			s.Missing[snapshot.Resource(object["resource"].(string))] = "forbidden"
		} else if kind == "Sought" {
			s.Known[snapshot.Resource(object["resource"].(string))] = true
		} else if r, ok := resources[kind]; ok {
			s.Add(r, object)
		} else {
			t.Fatalf("no kind %q", kind)
		}
	}
	return s
}

// ask gives the answer to a verb, as text.
func ask(s *snapshot.Snapshot, verb string) (string, error) {
	var a Answer
	var err error
	switch words := strings.Fields(verb); words[0] {
	case "status":
		a, err = NewStatus(s)
	case "worst":
		a, err = NewWorst(s, 10)
	case "topology":
		only := ""
		if len(words) > 1 {
			only = words[1]
		}
		if pod, isPod := strings.CutPrefix(only, "pod/"); isPod {
			a, err = NewPodTopology(s, pod)
		} else {
			a, err = NewTopology(s, only)
		}
	case "pod":
		a, err = ExplainPod(s, words[1])
	case "node":
		a, err = ExplainNode(s, words[1])
	}
	if err != nil {
		return "", err
	}
	format, _ := strings.CutPrefix(filepath.Ext(verb), ".")
	var out bytes.Buffer
	if format == "" {
		format = "text"
	}
	if err := Write(&out, a, format, taken.Add(3*time.Second)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%sexit code %d\n", out.String(), a.Head().Code), nil
}

// TestAnswers: objects in, answers out. An archive gives the same answers.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			live := cluster(t, archive.Files[0].Data)
			dumped := throughArchive(t, live)
			for i, file := range archive.Files[1:] {
				got, err := ask(live, file.Name)
				if err != nil {
					got = err.Error() + "\n"
				}
				if again, err := ask(dumped, file.Name); err == nil && again != got {
					t.Errorf("%s: from an archive it is\n%s\nand not\n%s", file.Name, again, got)
				}
				if *update {
					archive.Files[i+1].Data = []byte(got)
				} else if got != string(file.Data) {
					t.Errorf("%s: got\n%s\nwant\n%s", file.Name, got, file.Data)
				}
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func throughArchive(t *testing.T, s *snapshot.Snapshot, flows ...snapshot.NodeFlows) *snapshot.Snapshot {
	t.Helper()
	var out bytes.Buffer
	a, err := snapshot.NewArchive(&out, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range flows {
		if err := a.AddFlows(of.Summary.Node, of); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.Open(&out)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestProblems_SeePagesThatExist: all pages that this package names.
func TestProblems_SeePagesThatExist(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(text), `See: "`)[1:] {
			page, _, _ := strings.Cut(part, `"`)
			if page == "" || strings.ContainsAny(page, "\n)") {
				continue
			}
			named++
			_, failure := docs.Pages.ReadFile("failures/" + page + ".md")
			_, other := docs.Pages.ReadFile(page + ".md")
			if failure != nil && other != nil {
				t.Errorf("%s names the page %s, which does not exist", path, page)
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d pages are named: this test looks for the wrong text", named)
	}
}

// TestMeaning_IsTheTableOfThePage: users who read the page and those who ask the plugin read the same reasons.
func TestMeaning_IsTheTableOfThePage(t *testing.T) {
	page, err := docs.Pages.ReadFile("offload-status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Reasons")
	table, _, _ = strings.Cut(table, "\n## ")
	unknown, _ := Meaning("no such reason")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		rows++
		reason := strings.Trim(cells[1], " `")
		if meaning, action := Meaning(reason); meaning == "" || action == "" || meaning == unknown && reason != "unknown" {
			t.Errorf("the page explains %s, and Meaning does not", reason)
		}
	}
	if rows < 10 {
		t.Errorf("only %d reasons in the page", rows)
	}
}

// TestWrite_FormatsHaveTheSameFields, and a wrong format is refused.
func TestWrite_RefusesUnknownFormats(t *testing.T) {
	st, err := NewStatus(snapshot.New(taken, "ovn-kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	var asJSON, asYAML bytes.Buffer
	if err := Write(&asJSON, st, "json", taken); err != nil {
		t.Fatal(err)
	}
	if err := Write(&asYAML, st, "yaml", taken); err != nil {
		t.Fatal(err)
	}
	same, err := yaml.YAMLToJSON(asYAML.Bytes())
	if err != nil || len(same) == 0 || !strings.Contains(string(same), Version) {
		t.Errorf("YAML is %s, %v", asYAML.String(), err)
	}
	if err := Write(&asJSON, st, "xml", taken); err == nil {
		t.Error("the format xml is not refused")
	}
}
