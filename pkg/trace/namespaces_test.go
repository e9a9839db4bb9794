package trace

import (
	"strings"
	"testing"
)

// TestNamespaces_AreThoseOfTheEnds: what follows a name is none.
func TestNamespaces_AreThoseOfTheEnds(t *testing.T) {
	for ends, want := range map[string]string{
		"pod/web svc/db:5432":               "shop",
		"pod/web pod/db/icmp":               "shop",
		"pod/bank/web svc/bank/db:5432/tcp": "shop bank",
		"pod/bank/web pod/vault/db/icmp":    "shop bank vault",
		"pod/web 192.0.2.7:443":             "shop",
		"pod/web [2001:db8::1]:443":         "shop",
		"pod/web svc/db:none":               "shop",
	} {
		source, target, _ := strings.Cut(ends, " ")
		if got := strings.Join(Ends{Namespace: "shop"}.Namespaces(source, target), " "); got != want {
			t.Errorf("%s: %q, want %q", ends, got, want)
		}
	}
}
