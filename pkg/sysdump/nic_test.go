package sysdump

import (
	"os/exec"
	"strings"
	"testing"
)

// TestEachLink_RunsForTheLinksOfTheNode: lo is a link without a device.
func TestEachLink_RunsForTheLinksOfTheNode(t *testing.T) {
	for with, want := range map[string]bool{"": true, "/device": false} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", eachLink(with, `echo "asked $link"`)).CombinedOutput()
		if err != nil || strings.Contains(string(out), "# lo\nasked lo\n") != want {
			t.Errorf("links with %q: %v, %s", with, err, out)
		}
	}
}

// TestKernelLog_IsAScript, whatever the links of this machine are.
func TestKernelLog_IsAScript(t *testing.T) {
	for _, script := range []string{kernelLog, eachLink("/device", "ethtool -S $link")} {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("%v: %s in\n%s", err, out, script)
		}
	}
}
