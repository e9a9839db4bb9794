package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSweep_RemovesDirectoriesOfEndedProcesses(t *testing.T) {
	parent := t.TempDir()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	mine := fmt.Sprintf("%s%d-1", dirPrefix, os.Getpid())
	for _, name := range []string{mine, fmt.Sprintf("%s%d-2", dirPrefix, gone.Process.Pid), dirPrefix + "x", "other"} {
		if err := os.MkdirAll(filepath.Join(parent, name, "files"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(parent); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"other", mine, dirPrefix + "x"}, left); diff != "" {
		t.Error(diff)
	}
}

func TestJob_RoundTripWithItsStatus(t *testing.T) {
	dir := t.TempDir()
	job := Job{Args: []string{"sh", "-c", "exit 3"}, Dir: "/src", Module: "swsim.ko", VFs: 2, Switchdev: true, Disk: true, Apart: []string{"/c"}, Shares: []Share{{From: "/a", To: "/b", Writable: true}}}
	if err := writeJob(dir, job); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJob(dir)
	if diff := cmp.Diff(job, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := readStatus(dir); err == nil {
		t.Error("a status before there is one")
	}
	if err := WriteStatus(dir, 3); err != nil {
		t.Fatal(err)
	}
	if exit, err := readStatus(dir); exit != 3 || err != nil {
		t.Errorf("status %d, %v", exit, err)
	}
	if err := os.WriteFile(filepath.Join(dir, statusFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readStatus(dir); err == nil {
		t.Error("an empty status is one")
	}
}

func TestKernelBug_IsFoundInConsole(t *testing.T) {
	for text, want := range map[string]bool{
		"[    1.2] swsim 0000:01:00.0 eth0: renamed":                             false,
		"[    1.2] BUG: kernel NULL pointer dereference, address: 0000000000000": true,
		"[    9.9] WARNING: CPU: 0 PID: 1 at net/core/dev.c:1":                   true,
		"[    1.2] openvswitch: Open vSwitch switching datapath":                 false,
		"[   99.9] unregister_netdevice: waiting for eth0 to become free":        true,
		"INFO: task ovs-vswitchd:77 blocked for more than 122 seconds.":          true,
	} {
		if got := kernelBug.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestArguments_DriveAndReboot(t *testing.T) {
	for _, stays := range []bool{false, true} {
		cfg := Config{Reboots: stays}
		if stays {
			cfg.Drive = "/a/disk.img"
		}
		args := strings.Join(arguments(cfg, Job{}, "/d"), " ")
		if strings.Contains(args, "-no-reboot") == stays || strings.Contains(args, "file=/a/disk.img") != stays {
			t.Errorf("with a disk: %v: %s", stays, args)
		}
	}
}

// TestArguments_ArchitectureChoosesMachine: each architecture has its QEMU, processor and console. On arm64 the memory of
// a VF is as large as a page of 64 KiB, which the number of queues decides: 4 KiB of registers, and 8 bytes for a queue.
func TestArguments_ArchitectureChoosesMachine(t *testing.T) {
	for arch, want := range map[string][]string{
		"":      {"qemu-system-x86_64", "-machine q35", "console=ttyS0", "intel_iommu=on", "max_ioqpairs=256,msix_qsize=256,sriov_max_vfs=127,sriov_vq_flexible=254,sriov_vi_flexible=254"},
		"arm64": {"qemu-system-aarch64", "-machine virt", "console=ttyAMA0", "max_ioqpairs=6002,msix_qsize=6,sriov_max_vfs=2,sriov_vq_flexible=6000,sriov_vi_flexible=4"},
	} {
		args := strings.Join(arguments(Config{Arch: arch, NICs: 1, Outward: 2}, Job{}, "/d"), " ")
		for _, words := range append(want, "-netdev user,id=outward1,ipv6=off -device virtio-net-pci,netdev=outward1,mac=52:54:00:00:02:01") {
			if !strings.Contains(args, words) {
				t.Errorf("%q lacks %q: %s", arch, words, args)
			}
		}
	}
	if args := strings.Join(arguments(Config{Arch: "arm64"}, Job{}, "/d"), " "); strings.Contains(args, "iommu") || strings.Contains(args, "outward") {
		t.Errorf("arm64 without cards: %s", args)
	}
}
