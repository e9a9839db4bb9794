package mirror

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TestCopyOf_HasAValidName whatever name a network may have. Names that were valid before have not changed.
func TestCopyOf_HasAValidName(t *testing.T) {
	source := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	for network, want := range map[string]string{
		"MyNet": "mynet-web-1-", "a..b": "a--b-web-1-", "-a_": "a-web-1-", "...": "network-web-1-", "red_main": "red-main-web-1-", "net-1": "net-1-web-1-",
	} {
		got := copyOf(source, network).GenerateName
		if problems := validation.IsDNS1123Subdomain(got + "x7k2p"); got != want || len(problems) > 0 {
			t.Errorf("network %s: %q, want %q: %v", network, got, want, problems)
		}
	}
}
