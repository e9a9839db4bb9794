package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSites_AreOneChangeEach(t *testing.T) {
	const text = `package p

func f(a, b int, ok bool) bool {
	if a < b && !ok {
		g()
		return true
	}
	x := "text" + "text"
	_ = x
	return a != b
}
`
	found, err := sitesOf("p.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range found {
		got = append(got, s.String())
		if changed := string(s.apply([]byte(text))); changed == text || len(changed) != len(text)-len(s.old)+len(s.fresh) {
			t.Errorf("%s gives %s", s, changed)
		}
	}
	want := []string{
		`p.go:4 "&&" -> "||"`, `p.go:4 "<" -> ">="`, `p.go:4 "!" -> ""`, `p.go:5 "g()" -> "_ = 0"`,
		`p.go:6 "true" -> "false"`, `p.go:10 "!=" -> "=="`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDraw_IsTheSameForASeed(t *testing.T) {
	first, err := draw("../..", 31, 30)
	if err != nil {
		t.Fatal(err)
	}
	second, err := draw("../..", 31, 30)
	if err != nil {
		t.Fatal(err)
	}
	other, err := draw("../..", 32, 30)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second, cmp.AllowUnexported(site{})); diff != "" || len(first) != 30 {
		t.Errorf("%d changes; %s", len(first), diff)
	}
	if cmp.Equal(first, other, cmp.AllowUnexported(site{})) {
		t.Error("another seed draws the same")
	}
}
