package offload

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

func TestRunning_KeepsSettingsUntilSwitchRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running.json")
	load := func() *Running {
		r, err := LoadRunning(path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	settings := func(r *Running, i unixctl.Instance, hwOffload string) Settings {
		config := map[string]string{}
		if hwOffload != "" {
			config[HWOffloadKey] = hwOffload
		}
		o, err := r.Observe(i, config)
		if err != nil {
			t.Fatal(err)
		}
		return o.Settings()
	}
	first := unixctl.Instance{PID: 7, Started: time.Unix(1000, 5)}
	r := load()
	if s := settings(r, first, ""); s.HWOffload || s.RestartDue {
		t.Errorf("off: %+v", s)
	}
	if s := settings(r, first, "true"); !s.HWOffload || !s.RestartDue {
		t.Errorf("set since: %+v", s)
	}
	// A restart of the agent forgets nothing.
	if s := settings(load(), first, "true"); !s.RestartDue {
		t.Errorf("after a restart of the agent: %+v", s)
	}
	// The same pid, as in a container, and another socket.
	second := unixctl.Instance{PID: 7, Started: time.Unix(2000, 0)}
	if s := settings(load(), second, "true"); !s.HWOffload || s.RestartDue {
		t.Errorf("after a restart of ovs-vswitchd: %+v", s)
	}
	if err := os.WriteFile(path, []byte(`{"inst`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := settings(load(), second, "true"); s.RestartDue {
		t.Errorf("with a damaged file: %+v", s)
	}
	if r, err := LoadRunning(filepath.Join(path, "below-a-file")); err == nil {
		t.Errorf("read %+v", r)
	}
	nowhere := Running{path: filepath.Join(path, "below-a-file")}
	if o, err := nowhere.Observe(first, map[string]string{HWOffloadKey: "true"}); err == nil || !o.Settings().HWOffload {
		t.Errorf("without a place to write: %v, %+v", err, o)
	}
}

// TestUpgrade_SettingsOfRunningSwitchAreKept: testdata has the file as an agent wrote it before networks were values.
func TestUpgrade_SettingsOfRunningSwitchAreKept(t *testing.T) {
	r, err := LoadRunning(filepath.Join("testdata", "running.json"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 1, 8, 0, 0, 5000, time.UTC)
	o, err := r.Observe(unixctl.Instance{PID: 71, Started: began}, map[string]string{HWOffloadKey: "false"})
	if err != nil || !o.Settings().HWOffload {
		t.Errorf("the switch began with hw-offload: %+v, %v", o.Settings(), err)
	}
}
