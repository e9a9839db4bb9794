//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// fault is a test that fails with a version of OVS or OVN, for a reason that is in that version.
type fault struct {
	test func(*testing.T)
	// pin is the version, as a line of pins.txt. With another version the fault has to be looked at again.
	pin, why string
}

func faults() []fault {
	const ovs, why = "sid openvswitch-switch 4.0.0-2", "with userspace-tso-enable, OVS 4.0 leaves the checksum of SCTP to links that compute none (docs/support.md)"
	return []fault{
		{TestService_SCTPAssociationBegins, ovs, why},
		{TestHostPort_SCTPAssociationBegins, ovs, why},
	}
}

// skipFaults has a run without -run leave out the faults of the lab's versions. A fault of a version that is not pinned
// any more is an error.
func skipFaults() error {
	text, err := os.ReadFile(filepath.Join(cluster.root, "hack/image/debian/pins.txt"))
	if err != nil {
		return err
	}
	pins := strings.Split(string(text), "\n")
	var names []string
	for _, f := range faults() {
		name := runtime.FuncForPC(reflect.ValueOf(f.test).Pointer()).Name()
		name = name[strings.LastIndex(name, ".")+1:]
		if !slices.Contains(pins, f.pin) {
			return fmt.Errorf("%s is a fault of %q, which is not in pins.txt: run the test with the new version", name, f.pin)
		}
		suite, _, _ := strings.Cut(f.pin, " ")
		if slices.Contains(strings.Fields(*upFlags), "--suite="+suite) {
			names = append(names, name)
			fmt.Printf("not run: %s: %s\n", name, f.why)
		}
	}
	if len(names) == 0 || flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	return flag.Set("test.skip", "^("+strings.Join(names, "|")+")$")
}
