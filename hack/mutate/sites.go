package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// site is a change of one line: a text in place of another one at an offset of a file.
type site struct {
	file       string
	line       int
	offset     int
	old, fresh string
}

func (s site) String() string { return fmt.Sprintf("%s:%d %q -> %q", s.file, s.line, s.old, s.fresh) }

// apply gives the file's text with the change.
func (s site) apply(text []byte) []byte {
	return append(append(append([]byte{}, text[:s.offset]...), s.fresh...), text[s.offset+len(s.old):]...)
}

// opposites are the operators that a change puts in each other's place.
func opposites() map[token.Token]token.Token {
	return map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
		token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
	}
}

// sitesBelow finds the changes of a directory's files, without tests and generated code.
func sitesBelow(root, dir string) ([]site, error) {
	var all []site
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := sitesOf(name, text)
		all = append(all, found...)
		return err
	})
	return all, err
}

// sitesOf finds the changes of a file: an operator by its opposite, a negation without its "!", a constant of true or
// false by the other, and a call without a result that is left out.
func sitesOf(name string, text []byte) ([]site, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	var found []site
	add := func(from, to token.Pos, fresh string) {
		at, end := set.Position(from), set.Position(to)
		if at.Line == end.Line {
			found = append(found, site{name, at.Line, at.Offset, string(text[at.Offset:end.Offset]), fresh})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if other, ok := opposites()[n.Op]; ok && !isText(n) {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n.OpPos, n.OpPos+1, "")
			}
		case *ast.Ident:
			if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
				add(n.Pos(), n.End(), other)
			}
		case *ast.ExprStmt:
			if _, ok := n.X.(*ast.CallExpr); ok {
				add(n.Pos(), n.End(), "_ = 0")
			}
		}
		return true
	})
	return found, nil
}

// isText says whether an operation joins texts, as far as its literals show.
func isText(n *ast.BinaryExpr) bool {
	for _, side := range []ast.Expr{n.X, n.Y} {
		switch side := side.(type) {
		case *ast.BasicLit:
			if side.Kind == token.STRING && n.Op == token.ADD {
				return true
			}
		case *ast.BinaryExpr:
			if isText(side) {
				return true
			}
		}
	}
	return false
}
