package answer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNames_RowsHaveAtMost120Columns on a terminal: the widest cells lose their middle. Rows that fit stay as they are.
func TestNames_RowsHaveAtMost120Columns(t *testing.T) {
	long := "pod/" + strings.Repeat("a", 60) + "/" + strings.Repeat("b", 60) + "-0"
	whole := &Page{}
	whole.Names([][]string{{long, "svc/shop/db", "12"}})
	if !strings.Contains(whole.text.String(), long) {
		t.Errorf("in a pipe: %s", whole.text.String())
	}
	page := &Page{narrow: true}
	page.Names([][]string{{"FROM", "TO", "PACKETS"}, {long, "svc/shop/db", "12"}, {"pod/shop/web-0", long + ", " + long, "7"}})
	got := page.text.String()
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, part := range []string{"pod/aaa", "..", "b-0  svc/shop/db ", "pod/shop/web-0 ", "  12\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	short := &Page{narrow: true}
	short.Names([][]string{{strings.Repeat("a", 60), strings.Repeat("b", 58)}})
	if want := strings.Repeat("a", 60) + "  " + strings.Repeat("b", 58) + "\n"; short.text.String() != want {
		t.Errorf("a row of 120 columns: %s", short.text.String())
	}
}
