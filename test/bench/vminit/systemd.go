package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

// unitArgument says that this program runs as a unit of systemd.
const unitArgument = "unit"

const unit = `[Unit]
Description=The job of the bench
After=multi-user.target
[Service]
Type=oneshot
ExecStart=` + jobDir + "/" + vm.InitFile + " " + unitArgument + `
TimeoutStartSec=infinity
StandardOutput=journal+console
`

// files are those of systemd. Without KVM and beside other tests a service may need minutes to start or to answer.
func files(units string, job vm.Job) map[string]string {
	files := map[string]string{
		"/run/systemd/system.conf.d/bench.conf": "[Manager]\nDefaultTimeoutStartSec=20min\nDefaultDeviceTimeoutSec=20min\nDefaultTimeoutStopSec=20s\n",
		units + "/bench.target":                 "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\n",
	}
	if len(job.Prepare) == 0 {
		files[units+"/bench-job.service"] = unit
		files[units+"/bench.target"] += "Wants=bench-job.service\n"
	}
	for _, watched := range []string{"journald", "udevd", "logind"} {
		files[units+"/systemd-"+watched+".service.d/bench.conf"] = "[Service]\nWatchdogSec=0\nTimeoutStartSec=20min\n"
	}
	return files
}

// slow are units that no test needs. The first four update files after an update of packages.
func slow() []string {
	return []string{
		"ldconfig.service", "systemd-journal-catalog-update.service", "systemd-hwdb-update.service", "systemd-update-done.service",
		"serial-getty@ttyS0.service", "openvswitch-switch.service", "haproxy.service", "docker-registry.service",
		"NetworkManager-wait-online.service",
	}
}

// keep puts a directory of the root file system onto the disk, once.
func keep(dir, kept string) error {
	if _, err := os.Stat(kept); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", dir, kept).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s to the disk: %w: %s", dir, err, out)
	}
	return nil
}

// keepOwn has what systemd calls the host's own units and network configuration in the directory that stays.
func keepOwn() error {
	for _, dir := range []string{
		"/etc/systemd/system", "/etc/NetworkManager/system-connections", "/etc/openvswitch", "/var/lib/ovn-offload",
	} {
		kept := filepath.Join(vm.DiskDir, dir)
		if err := keep(dir, kept); err != nil {
			return err
		}
		if err := (mount{kept, dir, "", unix.MS_BIND, ""}).mount(); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the machine what its job says, before systemd.
func prepare(job vm.Job) error {
	if len(job.Prepare) == 0 {
		return keepOwn()
	}
	if out, err := exec.Command(job.Prepare[0], job.Prepare[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("preparing the machine: %w: %s", err, out)
	}
	return nil
}

// systemd makes systemd the first process. The NICs have their driver before, as from an initrd.
func systemd(job vm.Job) error {
	if err := nics(job); err != nil {
		return err
	}
	if err := prepare(job); err != nil {
		return err
	}
	const units = "/run/systemd/system"
	for path, text := range files(units, job) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, unit := range slow() {
		if err := os.Symlink(os.DevNull, filepath.Join(units, unit)); err != nil {
			return err
		}
	}
	err := unix.Exec("/lib/systemd/systemd", []string{"systemd", "--unit=bench.target", "--log-target=console", "--show-status=true"}, os.Environ())
	return fmt.Errorf("starting systemd: %w", err)
}
