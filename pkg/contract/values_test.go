package contract

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestValues_AreWhatSingleReadsAndWritesGive: many changes of one Values give the same as a text that is parsed and
// formatted for each of them.
func TestValues_AreWhatSingleReadsAndWritesGive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, text := range []string{"", "{}", "null", "x", `{"sandboxId":"1"}`, `{"a":[1]}`, `{"a":null,"b":{"c": 1}}`, `{"default":{"x":1}}`} {
		values, single := NewValues(text), text
		for range 200 {
			key, value := fmt.Sprint("k", r.IntN(4)), []string{"", "1", `{"x":[2]}`, `"s"`}[r.IntN(4)]
			if r.IntN(5) == 0 {
				key = "default"
			}
			switch r.IntN(3) {
			case 0:
				if got, want := values.Has(key, value), HasNetwork(single, key, value); got != want {
					t.Fatalf("%s has %s %s: %t, want %t", single, key, value, got, want)
				}
			case 1:
				if got, want := values.Names(key), HasKey(single, key); got != want {
					t.Fatalf("%s names %s: %t, want %t", single, key, got, want)
				}
			case 2:
				var raw any
				if value != "" {
					raw = rawJSON(value)
				}
				values.Set(key, value)
				single, _ = SetNetwork(single, key, raw)
			}
			if got := strings.Join(values.Keys(), " "); got != strings.Join(NetworkKeys(single), " ") {
				t.Fatalf("keys %s of %s", got, single)
			}
			if r.IntN(3) == 0 && values.String() != single && len(NetworkKeys(single)) > 0 {
				t.Fatalf("%s, want %s", values, single)
			}
		}
	}
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// TestValues_UnchangedTextStays: also one that cannot be read, and one with spaces.
func TestValues_UnchangedTextStays(t *testing.T) {
	for _, text := range []string{"", "x", `{ "a": 1 }`} {
		values := NewValues(text)
		if values.Names("b"); values.String() != text {
			t.Errorf("%q, want %q", values, text)
		}
		if values.Set("b", ""); values.String() != text && text != "x" {
			t.Errorf("%q, want %q", values, text)
		}
	}
}
