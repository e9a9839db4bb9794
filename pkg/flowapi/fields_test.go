package flowapi

import (
	"flag"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi/fieldstest"
)

var update = flag.Bool("update", false, "add new fields to the file")

// TestFields_AreOnlyAdded: a plugin and a relay of a former release read the answers of an agent.
func TestFields_AreOnlyAdded(t *testing.T) {
	fieldstest.Check(t, "testdata/fields.txt", *update, Summary{}, Flows{}, Why{})
}
