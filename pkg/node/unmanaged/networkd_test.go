package unmanaged

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// networkdScript runs the real systemd-networkd in namespaces, with a configuration for all devices. Without udev
// (/sys is read-only) it knows no properties of devices.
const networkdScript = `set -eu
mount --make-rprivate /
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/dbus /run/systemd/network
cat >/run/dbus.conf <<'END'
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>
END
dbus-daemon --config-file=/run/dbus.conf --nopidfile --fork 2>/dev/null
printf '[Match]\nName=eth0 br* ovn*\n[Network]\nAddress=192.0.2.99/24\n' >/run/systemd/network/10-netplan-all.network
ip link add eth0 type veth peer name cable
/usr/lib/systemd/systemd-networkd 2>/run/log &
"$TEST" -test.run='^TestNetworkdScript$' >&2
for device in br-int breth0 ovn-k8s-mp0; do ip link add $device type veth peer name x$device; done
state() {
	for try in $(seq 100); do
		all=$(networkctl --no-legend --no-pager list eth0 br-int breth0 ovn-k8s-mp0 2>/dev/null | awk '{print $2 "=" $5}')
		case $all in *initialized*|*pending*) ;; *) [ "$(echo "$all" | wc -l)" = 4 ] && break ;; esac
		sleep 0.1
	done
	echo "$1:" $all
}
state installed
STEP=remove "$TEST" -test.run='^TestNetworkdScript$' >&2
sleep 1
state removed
`

// TestNetworkdScript is the step that networkdScript names, in its namespaces.
func TestNetworkdScript(t *testing.T) {
	if os.Getenv("STEP") != "" {
		awaitNetworkd(t)
	}
	var err error
	switch step := os.Getenv("STEP"); step {
	case "":
		t.Skip("a part of TestInstall_NetworkdLeavesDevices")
	case "install":
		err = Install(t.Context(), "/run", t.TempDir(), []string{"breth0"})
	case "remove":
		err = Remove(t.Context(), "/run")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitNetworkd returns when systemd-networkd is on the bus.
func awaitNetworkd(t *testing.T) {
	t.Helper()
	bus, err := dbus.Connect("unix:path=/run/dbus/system_bus_socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bus.Close() }()
	for running := []string{}; !slices.Contains(running, "org.freedesktop.network1"); time.Sleep(100 * time.Millisecond) {
		if err := bus.BusObject().CallWithContext(t.Context(), "org.freedesktop.DBus.ListNames", 0).Store(&running); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInstall_NetworkdLeavesDevices: a systemd-networkd that runs leaves our devices alone, and not the uplink. Before
// the files and after them it configures all of them.
func TestInstall_NetworkdLeavesDevices(t *testing.T) {
	for _, program := range []string{"/usr/lib/systemd/systemd-networkd", "networkctl", "dbus-daemon", "unshare"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 {
			t.Skipf("needs root and %s (Debian's systemd and dbus)", program)
		}
	}
	for step, want := range map[string]string{
		"install": `installed: br-int=unmanaged breth0=unmanaged eth0=conf\w+ ovn-k8s-mp0=unmanaged`,
		"none":    `installed: br-int=conf\w+ breth0=conf\w+ eth0=conf\w+ ovn-k8s-mp0=conf\w+`,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", networkdScript)
		cmd.Env = append(os.Environ(), "STEP="+step, "TEST="+os.Args[0])
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
		text := sorted(string(out))
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: want %s\n%s", step, want, text)
		}
		if after := `removed: br-int=conf\w+ breth0=conf\w+ eth0=conf\w+ ovn-k8s-mp0=conf\w+`; !regexp.MustCompile(after).MatchString(text) {
			t.Errorf("%s: want %s\n%s", step, after, text)
		}
	}
}

// sorted puts the devices of each line in order.
func sorted(out string) string {
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if what, devices, ok := strings.Cut(line, ": "); ok {
			fields := strings.Fields(devices)
			slices.Sort(fields)
			lines[i] = what + ": " + strings.Join(fields, " ")
		}
	}
	return strings.Join(lines, "\n")
}
