package budgets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPrograms_AskAnyMember: of a clustered database any member's pod may be the one that is asked, so each command of the
// product that runs there is made by contract.AtMember.
func TestPrograms_AskAnyMember(t *testing.T) {
	tree, found := os.DirFS(repository), 0
	for _, under := range []string{"cmd", "pkg"} {
		if err := fs.WalkDir(tree, under, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			source, err := fs.ReadFile(tree, file)
			if err != nil {
				return err
			}
			good, wrong := programs(t, string(source))
			found += len(good)
			for _, program := range wrong {
				t.Errorf("%s: %s asks the leader only: want contract.AtMember(%q, ...)", file, program, program)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if found < 5 {
		t.Errorf("only %d commands were found", found)
	}
}

// TestPrograms_AreFound is the negative control.
func TestPrograms_AreFound(t *testing.T) {
	for source, isWrong := range map[string]bool{
		`var a = []string{"ovn-trace", "--ct=new"}`:                     true,
		`var a = row{"ovn-nbctl"}`:                                      true,
		`var a = contract.AtMember("x", "ovn-sbctl")`:                   true,
		`var a = contract.AtMember("ovn-sbctl", "show")`:                false,
		`var a = fmt.Errorf("ovn-trace found no path")`:                 false,
		`var a = append([]string{}, contract.AtMember("ovn-nbctl")...)`: false,
	} {
		good, wrong := programs(t, "package a\n\n"+source)
		if (len(wrong) > 0) != isWrong || isWrong && len(good) > 0 {
			t.Errorf("%s: %v are right, %v are wrong", source, good, wrong)
		}
	}
}

// programs are the names of OVN's programs in a source that are the first argument of contract.AtMember, and others.
func programs(t *testing.T, source string) (good, wrong []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := map[ast.Node]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if of, ok := n.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "AtMember" && len(n.Args) > 0 {
				first[n.Args[0]] = true
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if err != nil || !slices.Contains([]string{"ovn-nbctl", "ovn-sbctl", "ovn-trace"}, text) {
				break
			}
			if first[n] {
				good = append(good, text)
			} else {
				wrong = append(wrong, text)
			}
		}
		return true
	})
	return good, wrong
}
