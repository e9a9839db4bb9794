package fieldstest

import (
	"slices"
	"testing"
	"time"
)

type inner struct {
	Name string `json:"name"`
}

type outer struct {
	inner
	Taken   time.Time        `json:"taken"`
	List    []*outer         `json:"list,omitempty"`
	ByName  map[string]inner `json:"byName"`
	Count   *int             `json:"count"`
	private int
	Left    bool `json:"-"`
}

// TestFields_OfAllLevels, embedded and nested ones too, and a type within itself once.
func TestFields_OfAllLevels(t *testing.T) {
	want := []string{"outer.byName object", "outer.byName.name string", "outer.count number", "outer.list list", "outer.name string", "outer.taken object"}
	if got := Fields(outer{private: 1}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
