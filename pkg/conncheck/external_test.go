package conncheck

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// TestExternal_AsksEachAddressOnce: from pods of both nodes and one with hostNetwork, and with the control; where packets are
// handled is not compared. What is no address and port of TCP outside is refused.
func TestExternal_AsksEachAddressOnce(t *testing.T) {
	cases, err := External([]string{"198.51.100.7:443", "[2001:db8::7]:443", "198.51.100.7:443"})
	if err != nil || len(cases) != 8 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	denied := 0
	for i, c := range cases {
		q, impossible := env().Question(c)
		host, family := "198.51.100.7", 4
		if i >= 4 {
			host, family = "2001:db8::7", 6
		}
		if impossible != "" || q.Host != host || q.Family != family || q.Port != 443 || !q.Silent || q.Protocol != "tcp" {
			t.Errorf("%s: %+v %s", c.ID, q, impossible)
		}
		if c.Want == probe.Timeout {
			denied++
			if c.From != "caged" {
				t.Errorf("%s: the control is pod %s", c.ID, c.From)
			}
		}
		if got := c.Legs(Devices{VF: map[string]bool{"client": true}}); len(got) > 0 {
			t.Errorf("%s: places %v are compared", c.ID, got)
		}
	}
	if denied != 2 || cases[0].ID != "external/client-to-external-198.51.100.7:443/tcp4" {
		t.Errorf("%d controls; %s", denied, cases[0].ID)
	}
	none := env()
	for name := range none.Pods {
		none.Pods[name] = Addresses{4: none.Pods[name][4]}
	}
	if _, impossible := none.Question(cases[4]); impossible != "pods have no IPv6" {
		t.Errorf("%q", impossible)
	}
	for _, wrong := range []string{"", "198.51.100.7", "198.51.100.7:0", "example.com:443", "2001:db8::7:443:x", "[fe80::1%eth0]:80", "[::ffff:198.51.100.7]:80", "0.0.0.0:80"} {
		if _, err := External([]string{wrong}); err == nil || !strings.Contains(err.Error(), "--external="+wrong) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
