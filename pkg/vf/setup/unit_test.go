package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

func atBoot(w *world, n int) {
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: n, UplinkChange: v1alpha1.UplinkAtBoot, OVSHWOffload: new(bool)})}
}

func newUnits(t *testing.T) *world {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.cards[first].master, w.units = ovsDatapath, t.TempDir()
	return w
}

// commands are those of a unit that is enabled.
func (w *world) commands() (lines []string) {
	text, err := os.ReadFile(filepath.Join(w.units, wantsDir, unitName(first)))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// TestUnit_SetsUpNICAtBoot: the NIC of a running node stays as it is; the next boot has the policy's state, and goes
// back with the policy.
func TestUnit_SetsUpNICAtBoot(t *testing.T) {
	w := newUnits(t)
	atBoot(w, 4)
	if got := w.pass().Results()[0]; got.State != v1alpha1.PolicyRebootNeeded || !strings.Contains(got.Message, "up03, which is a port of ovs-system") {
		t.Errorf("%+v", got)
	}
	want := []string{
		"/bin/sh -c 'n=0; until ls /sys/bus/pci/devices/0000:03:00.0/net/* >/dev/null 2>&1; do n=$$((n+1)); [ $$n -le 30 ] || exit 1; sleep 1; done'",
		"/bin/sh -c 'echo 0 >/sys/bus/pci/devices/0000:03:00.0/sriov_numvfs'",
		"devlink dev eswitch set pci/0000:03:00.0 mode switchdev",
		"/bin/sh -c 'echo 4 >/sys/bus/pci/devices/0000:03:00.0/sriov_numvfs'",
	}
	if diff := cmp.Diff(want, w.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if steps := w.took(); steps != nil {
		t.Errorf("the NIC is changed: %q", steps)
	}
	w.boot, w.cards[first] = "boot-2", &card{driver: "mlx5_core", total: 8, vfs: 4, mode: vf.Switchdev, reps: make([]bool, 4), master: ovsDatapath}
	if got := w.pass().Results()[0]; got.State != v1alpha1.PolicyApplied {
		t.Errorf("after the boot: %+v", got)
	}
	w.policies = nil
	w.pass()
	if left, err := filepath.Glob(w.units + "/*/*"); err != nil || len(left) != 0 || w.commands() != nil {
		t.Errorf("left %q", left)
	}
	if w.cards[first].mode != vf.Switchdev {
		t.Error("without a reboot the NIC changes")
	}
}

// TestUnit_ThatDidNothingIsReported: after a boot the policy waits for no other one.
func TestUnit_ThatDidNothingIsReported(t *testing.T) {
	w := newUnits(t)
	atBoot(w, 4)
	w.pass()
	w.boot = "boot-2"
	if got := w.pass().Results()[0]; got.State != v1alpha1.PolicyFailed || !strings.Contains(got.Message, unitName(first)) {
		t.Errorf("%+v", got)
	}
	atBoot(w, 5)
	if got := w.pass().Results()[0]; got.State != v1alpha1.PolicyRebootNeeded || !strings.Contains(strings.Join(w.commands(), " "), "echo 5") {
		t.Errorf("another number: %+v, %q", got, w.commands())
	}
}

// TestUnit_FollowsDriverAndHost: bnxt_en wants VFs first, a free NIC needs no reboot, and a host may have no systemd.
func TestUnit_FollowsDriverAndHost(t *testing.T) {
	w := newUnits(t)
	w.cards[first].driver, w.cards[first].master = "bnxt_en", ""
	atBoot(w, 4)
	if got := w.pass().Results()[0]; got.State != v1alpha1.PolicyApplied || w.cards[first].vfs != 4 {
		t.Errorf("a free NIC: %+v", got)
	}
	if c := w.commands(); len(c) != 4 || !strings.Contains(c[2], "echo 4") || !strings.HasPrefix(c[3], "devlink") {
		t.Errorf("%q", c)
	}
	if err := RemoveUnits(w.units); err != nil || w.commands() != nil {
		t.Errorf("%v, left %q", err, w.commands())
	}
	w = newUnits(t)
	w.units = filepath.Join(w.units, "none")
	atBoot(w, 4)
	if got := w.pass().Results()[0]; got.State != v1alpha1.PolicyRefused || !strings.Contains(got.Message, "systemd") {
		t.Errorf("%+v", got)
	}
}

// TestUnit_KillLeavesNoHalf: a unit that is not enabled is written again.
func TestUnit_KillLeavesNoHalf(t *testing.T) {
	w := newUnits(t)
	if err := os.WriteFile(filepath.Join(w.units, unitName(first)), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	atBoot(w, 4)
	w.pass()
	if len(w.commands()) != 4 {
		t.Errorf("%q", w.commands())
	}
}
