package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// busConfig lets root own any name on a bus of the test's own.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=SOCKET</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>
`

// systemdManagerFake answers as systemd does: process 7 is in a unit.
type systemdManagerFake struct {
	mu       sync.Mutex
	unit     dbus.ObjectPath
	restarts []string
	restart  func()
}

func (m *systemdManagerFake) GetUnitByPID(pid uint32) (dbus.ObjectPath, *dbus.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pid != 7 || m.unit == "" {
		return "", dbus.NewError("org.freedesktop.systemd1.NoUnitForPID", []any{"PID does not belong to any loaded unit."})
	}
	return m.unit, nil
}

// has puts process 7 into a unit.
func (m *systemdManagerFake) has(unit dbus.ObjectPath) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unit = unit
}

// restarted gives the calls of RestartUnit until now.
func (m *systemdManagerFake) restarted() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.restarts, ",")
}

func (m *systemdManagerFake) RestartUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restarts = append(m.restarts, name+" "+mode)
	m.restart()
	return "/org/freedesktop/systemd1/job/1", nil
}

// newSystemd begins a bus with a systemd below a /run.
func newSystemd(t *testing.T) (run string, m *systemdManagerFake) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon (Debian's dbus)")
	}
	run = t.TempDir()
	socket, config := filepath.Join(run, "dbus/system_bus_socket"), filepath.Join(run, "bus.conf")
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(busConfig, "SOCKET", socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), "dbus-daemon", "--config-file="+config, "--nofork", "--nopidfile")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	var bus *dbus.Conn
	var err error
	for range 100 {
		if bus, err = dbus.Connect("unix:path=" + socket); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	m = &systemdManagerFake{}
	if err := bus.Export(m, systemdPath, systemdManager); err != nil {
		t.Fatal(err)
	}
	for unit, id := range map[dbus.ObjectPath]string{"/org/freedesktop/systemd1/unit/ovs": "ovs-vswitchd.service", "/org/freedesktop/systemd1/unit/other": "containerd.service"} {
		properties := prop.Map{systemdName + ".Unit": {"Id": {Value: id, Emit: prop.EmitConst}}}
		if _, err := prop.Export(bus, unit, properties); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := bus.RequestName(systemdName, 0); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return run, m
}

// TestRestart_ServiceOfHost: an ovs-vswitchd that a service of the host runs is restarted by the host's systemd, and one
// in any other unit is not.
func TestRestart_ServiceOfHost(t *testing.T) {
	run, m := newSystemd(t)
	dir := t.TempDir()
	v := Vswitchd{
		Client:   unixctl.Client{Dir: dir, Daemon: "ovs-vswitchd"},
		Observed: func() (offload.Observed, bool) { return offload.Observed{}, true },
	}
	daemon(t, dir, 7, false)
	m.mu.Lock()
	m.restart = func() { daemon(t, dir, 8, false) }
	m.mu.Unlock()
	m.has("/org/freedesktop/systemd1/unit/ovs")
	if v.Observe().Supervised {
		t.Error("supervised without services")
	}
	v.Services = Systemd{Run: run}
	for unit, want := range map[dbus.ObjectPath]string{"/org/freedesktop/systemd1/unit/other": "no supervisor", "": "does not belong to any loaded unit"} {
		m.has(unit)
		if err := v.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), want) || v.Observe().Supervised {
			t.Errorf("unit %q: %v, want %q", unit, err, want)
		}
	}
	if restarts := m.restarted(); restarts != "" {
		t.Fatalf("restarted %q", restarts)
	}
	m.has("/org/freedesktop/systemd1/unit/ovs")
	if ovs := v.Observe(); !ovs.Supervised || ovs.Unsupervised != nil {
		t.Errorf("not supervised: %v", ovs.Unsupervised)
	}
	if err := v.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := v.Client.Instance(); err != nil || now.PID != 8 || m.restarted() != "ovs-vswitchd.service replace" {
		t.Errorf("%+v, %v, restarts %q", now, err, m.restarted())
	}
	v.Services = Systemd{Run: t.TempDir()} // no D-Bus
	if ovs := v.Observe(); ovs.Supervised || ovs.Unsupervised != nil {
		t.Errorf("without D-Bus: %+v", ovs)
	}
}
