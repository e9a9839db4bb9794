package served

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/served.md")

const repository = "../../.."

// code is what the product's code says.
type code struct {
	// keys are the constants of pkg/contract that are keys of annotations and labels, by name.
	keys map[string]string
	// used are the names of constants of pkg/contract that code uses, and literals the strings that code has.
	used, literals map[string]bool
}

func readCode(t *testing.T) code {
	t.Helper()
	c := code{keys: map[string]string{}, used: map[string]bool{}, literals: map[string]bool{}}
	for _, top := range []string{"pkg", "cmd"} {
		if err := filepath.WalkDir(filepath.Join(repository, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "contract/served") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				c.read(file, filepath.Base(filepath.Dir(path)) == "contract")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// isKey matches the names of constants that are keys.
var isKey = regexp.MustCompile(`(Key|Label)$`)

func (c code) read(file *ast.File, isContract bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if isContract && c.declare(n) {
				return false
			}
		case *ast.SelectorExpr:
			if from, ok := n.X.(*ast.Ident); ok && from.Name == "contract" {
				c.used[n.Sel.Name] = true
			}
		case *ast.Ident:
			if isContract {
				c.used[n.Name] = true
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				c.literals[text] = true
			}
		}
		return true
	})
}

// declare notes the declaration of a key, which is no use of it.
func (c code) declare(n *ast.ValueSpec) bool {
	if len(n.Names) != 1 || len(n.Values) != 1 || !isKey.MatchString(n.Names[0].Name) {
		return false
	}
	literal, ok := n.Values[0].(*ast.BasicLit)
	if !ok {
		return false
	}
	text, err := strconv.Unquote(literal.Value)
	if err == nil {
		c.keys[n.Names[0].Name] = text
	}
	return err == nil
}

// serves says that code reads or writes a key.
func (c code) serves(key string) bool {
	for name, value := range c.keys {
		if value == key && c.used[name] {
			return true
		}
	}
	return c.literals[key]
}

// TestTable_HasTheKeysOfTheContract: each key of package contract has a row in the table.
func TestTable_HasTheKeysOfTheContract(t *testing.T) {
	keys := readCode(t).keys
	if len(keys) < 40 {
		t.Fatalf("only %d keys found", len(keys))
	}
	inDatabase := []string{"NetworkLabel", "TopologyLabel", "RoleLabel", "NADLabel"} // in external_ids, not in Kubernetes
	for name, key := range keys {
		has := slices.ContainsFunc(Annotations(), func(a Annotation) bool { return a.Key == key })
		if has == slices.Contains(inDatabase, name) {
			t.Errorf("contract.%s %q: in the table %t", name, key, has)
		}
	}
}

// TestTable_AgreesWithTheCode: what is served is read or written somewhere, and what is refused nowhere.
func TestTable_AgreesWithTheCode(t *testing.T) {
	c := readCode(t)
	for _, a := range Annotations() {
		if serves := c.serves(a.Key); serves != (a.State == Served) {
			t.Errorf("%s is %s; code has it: %t", a.Key, a.State, serves)
		}
	}
	if c.serves("example.com/none") {
		t.Error("code has a key that there is not")
	}
}

// TestKinds_AgreeWithTheRights: the controller may read the kinds that it serves, and those whose objects get an Event.
func TestKinds_AgreeWithTheRights(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "deploy/chart/templates/20-rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`[a-z-]+`).FindAllString(string(text), -1)
	for _, k := range Kinds() {
		if has := slices.Contains(words, k.Resource); has != (k.State != Harmless) {
			t.Errorf("%s is %s; the chart has rights for it: %t", k.Kind, k.State, has)
		}
	}
}

// TestTable_SaysOneThing: of a key on a kind there is one row, and each has a sentence.
func TestTable_SaysOneThing(t *testing.T) {
	states, seen := []State{Served, Refused, Harmless}, map[string]bool{}
	note := func(name string, state State, sentence string) {
		if seen[name] || !slices.Contains(states, state) || sentence == "" {
			t.Errorf("%s: state %q, note %q, twice %t", name, state, sentence, seen[name])
		}
		seen[name] = true
	}
	for _, a := range Annotations() {
		for _, kind := range a.On {
			note(kind+" "+a.Key, a.State, a.Note)
		}
		if len(a.On) == 0 {
			t.Errorf("%s is on no kind", a.Key)
		}
		if a.Label && a.State == Refused {
			t.Errorf("label %s is refused, and only annotations get an Event", a.Key)
		}
	}
	for _, k := range Kinds() {
		note(k.Kind, k.State, k.Note)
	}
}

// TestRefusals_NameTheKey: an object has a sentence for each of its annotations without effect, and for no other.
func TestRefusals_NameTheKey(t *testing.T) {
	const ingress, egress, multicast = "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth", "k8s.ovn.org/multicast-enabled"
	for _, c := range []struct {
		kind        string
		annotations map[string]string
		want        []string // beginnings
	}{
		{"Pod", nil, nil},
		{"Pod", map[string]string{"k8s.v1.cni.cncf.io/networks": "a", "example.com/any": "b"}, nil},
		{"Pod", map[string]string{ingress: "10M"}, []string{"annotation " + ingress + " has no effect: the bandwidth"}},
		{"Pod", map[string]string{ingress: "10M", egress: "1k"}, []string{"annotation " + egress + " has no effect:", "annotation " + ingress + " has no effect:"}},
		{"Pod", map[string]string{egress: "fast"}, []string{"annotation " + egress + ` has no effect, and its value is wrong: "fast" is not a quantity`}},
		{"Pod", map[string]string{egress: "10"}, []string{"annotation " + egress + " has no effect, and its value is wrong: 10 is not between 1k and 1P"}},
		{"Pod", map[string]string{egress: "2P"}, []string{"annotation " + egress + " has no effect, and its value is wrong: 2P is not between"}},
		{"Service", map[string]string{egress: "10M"}, nil},
		{"Namespace", map[string]string{multicast: "true"}, []string{"annotation " + multicast + " has no effect: "}},
		{"Namespace", map[string]string{multicast: "false"}, nil},
		{"Pod", map[string]string{multicast: "true"}, nil},
		{"NetworkPolicy", map[string]string{"k8s.ovn.org/acl-stateless": "true"}, []string{"annotation k8s.ovn.org/acl-stateless has no effect: "}},
	} {
		got := Refusals(c.kind, c.annotations)
		if len(got) != len(c.want) || slices.ContainsFunc(c.want, func(want string) bool {
			return !slices.ContainsFunc(got, func(sentence string) bool { return strings.HasPrefix(sentence, want) })
		}) {
			t.Errorf("%s with %v: %q, want %q", c.kind, c.annotations, got, c.want)
		}
	}
}

// TestPage_IsThatOfTheTable: go test ./pkg/contract/served -update writes it again.
func TestPage_IsThatOfTheTable(t *testing.T) {
	path := filepath.Join(repository, "docs/served.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(), string(text)); diff != "" {
		t.Errorf("docs/served.md is another one (-update writes it):\n%s", diff)
	}
}
