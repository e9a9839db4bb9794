package budgets

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of the house style.
const (
	fieldsOfType   = 12
	methodsOfType  = 15
	linesOfPackage = 2500
	columnsOfDocs  = 120
)

const repository = "../.."

// size is what is counted: by what it is of.
type size map[string]int

// TestBudgets_HoldExceptWhereListed: over.txt has the excesses that are known, and only gets shorter:
// a line fails whose code is within the limits again.
func TestBudgets_HoldExceptWhereListed(t *testing.T) {
	counted := size{}
	for _, top := range []string{"pkg", "cmd"} {
		if err := filepath.WalkDir(filepath.Join(repository, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return counted.file(path)
		}); err != nil {
			t.Fatal(err)
		}
	}
	limits := map[string]int{"fields": fieldsOfType, "methods": methodsOfType, "lines": linesOfPackage}
	var over []string
	for what, n := range counted {
		if kind, _, _ := strings.Cut(what, " "); n > limits[kind] {
			over = append(over, what)
		}
	}
	slices.Sort(over)
	listed, err := os.ReadFile("over.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.FieldsFunc(string(listed), func(r rune) bool { return r == '\n' })
	for _, line := range over {
		if !slices.Contains(known, line) {
			t.Errorf("%s: %d, at most %d", line, counted[line], limits[strings.Fields(line)[0]])
		}
	}
	for _, line := range known {
		if !slices.Contains(over, line) {
			t.Errorf("over.txt has %q, which is within its limit", line)
		}
	}
}

// file counts one file. Generated files count for nothing.
func (s size) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(parsed) {
		return err
	}
	pkg, err := filepath.Rel(repository, filepath.Dir(path))
	if err != nil {
		return err
	}
	s["lines of "+pkg] += bytes.Count(text, []byte("\n"))
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				s["methods of "+pkg+"."+receiver(decl.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			maps.Copy(s, fields(pkg, decl))
		}
	}
	return nil
}

func fields(pkg string, decl *ast.GenDecl) size {
	counted := size{}
	for _, spec := range decl.Specs {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if structure, ok := typ.Type.(*ast.StructType); ok {
			counted["fields of "+pkg+"."+typ.Name.Name] = structure.Fields.NumFields()
		}
	}
	return counted
}

// receiver is the name of a method's type.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr.Name
	}
	return "?"
}

// TestDocs_LinesEndByColumn120: but for tables, and for commands, which are indented.
func TestDocs_LinesEndByColumn120(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(repository, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if columns := utf8.RuneCountInString(line); columns > columnsOfDocs && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d has %d columns", page, i+1, columns)
			}
		}
	}
}
