package answer

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi/fieldstest"
)

// TestFields_AreOnlyAdded: programs read the answers of all releases.
func TestFields_AreOnlyAdded(t *testing.T) {
	fieldstest.Check(t, "testdata/fields.txt", *update, Status{}, Worst{}, PodExplained{}, NodeExplained{}, FlowExplained{}, Deciding{}, Streams{}, Live{}, Top{}, Traced{},
		Tested{}, Measured{}, Captured{}, Linted{}, Preflighted{}, Versions{}, PodTopology{})
}
