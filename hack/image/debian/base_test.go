package debian

import (
	"testing"
	"time"
)

func TestBaseKey_ChangesWeeklyAndWithContent(t *testing.T) {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	key := NewBase("trixie", "amd64", monday).key()
	if other := NewBase("trixie", "amd64", monday.Add(7*24*time.Hour-time.Second)).key(); other != key {
		t.Error("the key changed within the week")
	}
	changed := NewBase("trixie", "amd64", monday)
	changed.Packages = append(changed.Packages, "more")
	for name, b := range map[string]Base{
		"week": NewBase("trixie", "amd64", monday.AddDate(0, 0, 7)), "arch": NewBase("trixie", "arm64", monday),
		"suite": NewBase("sid", "amd64", monday), "packages": changed,
	} {
		if b.key() == key {
			t.Errorf("another %s, the same key", name)
		}
	}
}
