package selected

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

var update = flag.Bool("update", false, "write the wanted answers again")

func cluster(t *testing.T, text []byte) *snapshot.Snapshot {
	t.Helper()
	s := snapshot.New(time.Unix(0, 0), "ovn-kubernetes")
	resources := map[string]snapshot.Resource{"Namespace": snapshot.Namespaces, "Pod": snapshot.Pods}
	for _, k := range Kinds() {
		resources[k.Name] = k.Resource
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		kind, _ := object["kind"].(string)
		if kind == "Forbidden" {
			s.Missing[snapshot.Resource(object["resource"].(string))] = "forbidden"
		} else if resources[kind] == "" {
			t.Fatalf("no kind %q", kind)
		} else {
			s.Add(resources[kind], object)
		}
	}
	return s
}

// ask reads a policy that a file's name has: the word of its kind, then its name.
func ask(s *snapshot.Snapshot, file string) string {
	word, name, _ := strings.Cut(file, "/")
	kind, ok := Named(word)
	if !ok {
		return "no such kind\n"
	}
	p, err := Read(s, kind, name)
	switch {
	case err != nil:
		return err.Error() + "\n"
	case p == nil:
		return "not there\n"
	case p.Pods == nil:
		return fmt.Sprintf("pods not known\nproblem %s\ncosts %q\n", p.Problem, p.Costs)
	}
	return fmt.Sprintf("pods %s\nnetworks %s\nproblem %s\ncosts %q\n", strings.Join(p.Pods, " "), strings.Join(p.Networks, " "), p.Problem, p.Costs)
}

// TestRead: objects in, what is said of each policy out. Of each there is one beside it that selects or costs nothing.
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := cluster(t, archive.Files[0].Data)
		for i, file := range archive.Files[1:] {
			got := strings.ReplaceAll(ask(s, file.Name), " \n", "\n")
			if *update {
				archive.Files[i+1].Data = []byte(got)
			} else if got != string(file.Data) {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", path, file.Name, got, file.Data)
			}
		}
		if *update {
			if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNamed_TakesTheWordsOfKubectl, and no others.
func TestNamed_TakesTheWordsOfKubectl(t *testing.T) {
	for words, want := range map[string]string{
		"netpol networkpolicy networkpolicies NetworkPolicy":                        "NetworkPolicy",
		"anp adminnetworkpolicy adminnetworkpolicies":                               "AdminNetworkPolicy",
		"banp baselineadminnetworkpolicy":                                           "BaselineAdminNetworkPolicy",
		"cnp clusternetworkpolicy":                                                  "ClusterNetworkPolicy",
		"multi-policy multi-networkpolicy multi-networkpolicies multinetworkpolicy": "MultiNetworkPolicy",
		"pod policy networkpolic egressfirewall":                                    "",
	} {
		for _, word := range strings.Fields(words) {
			if k, ok := Named(word); k.Name != want || ok != (want != "") {
				t.Errorf("%s: %q", word, k.Name)
			}
		}
	}
	for text, want := range map[string]string{
		"deny": "NetworkPolicy deny", "shop/deny": "NetworkPolicy shop/deny", "netpol/shop/deny": "NetworkPolicy shop/deny", "anp/deny": "AdminNetworkPolicy deny",
		"multi-policy/shop/deny@blue": "MultiNetworkPolicy shop/deny",
	} {
		if k, name := Reference(text); k.Name+" "+name != want {
			t.Errorf("%s: %s %s", text, k.Name, name)
		}
	}
}
