package setup

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"
)

// Services are those of the service manager of the host that run Open vSwitch; Systemd has them.
type Services interface {
	// Of names the service that runs the process and would start it again; "" for none.
	Of(ctx context.Context, pid int) (string, error)
	// Restart ends a service and starts it. It returns before this is done.
	Restart(ctx context.Context, service string) error
}

// Systemd has the host's services over D-Bus. The number of a process is that of the host.
type Systemd struct {
	// Run is the host's /run.
	Run string
}

const (
	systemdName    = "org.freedesktop.systemd1"
	systemdPath    = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdManager = systemdName + ".Manager"
	systemdTimeout = 5 * time.Second
)

// switchServices run ovs-vswitchd on Debian and Red Hat. The first one also is the init script of the system of
// BlueField, and has ovsdb-server too. Any other unit is not restarted: it may be a container runtime, or a login.
func switchServices() []string {
	return []string{"openvswitch-switch.service", "ovs-vswitchd.service", "openvswitch.service", "openvswitch-nonetwork.service"}
}

// Of is Services'. A host without D-Bus has no services.
func (s Systemd) Of(ctx context.Context, pid int) (service string, err error) {
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	err = s.call(ctx, func(bus *dbus.Conn, manager dbus.BusObject) error {
		var unit dbus.ObjectPath
		if err := manager.CallWithContext(ctx, systemdManager+".GetUnitByPID", 0, uint32(pid)).Store(&unit); err != nil {
			return fmt.Errorf("asking systemd for the unit of process %d: %w", pid, err)
		}
		var id dbus.Variant
		if err := bus.Object(systemdName, unit).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0,
			systemdName+".Unit", "Id").Store(&id); err != nil {
			return fmt.Errorf("asking systemd for the name of %s: %w", path.Base(string(unit)), err)
		}
		if name, _ := id.Value().(string); slices.Contains(switchServices(), name) {
			service = name
		}
		return nil
	})
	return service, err
}

// Restart is Services'.
func (s Systemd) Restart(ctx context.Context, service string) error {
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	return s.call(ctx, func(_ *dbus.Conn, manager dbus.BusObject) error {
		if err := manager.CallWithContext(ctx, systemdManager+".RestartUnit", 0, service, "replace").Err; err != nil {
			return fmt.Errorf("telling systemd to restart %s: %w", service, err)
		}
		return nil
	})
}

func (s Systemd) call(ctx context.Context, f func(bus *dbus.Conn, manager dbus.BusObject) error) error {
	socket := filepath.Join(s.Run, "dbus/system_bus_socket")
	if _, err := os.Stat(socket); err != nil {
		return nil //nolint:nilerr // a host without D-Bus
	}
	bus, err := dbus.Connect("unix:path="+socket, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connecting to D-Bus: %w", err)
	}
	defer func() { _ = bus.Close() }()
	return f(bus, bus.Object(systemdName, systemdPath))
}
