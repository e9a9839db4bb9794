package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// cgroupPrefix with the lab's name is the group of all its machines.
	cgroupPrefix = "ovn-offload-lab-"
	// podsGroup is the group in which containerd makes those of containers.
	podsGroup = "k8s.io"
	// A process has 1024 shares of the processor time, and so has a group by default: all machines of a lab as much as one
	// process beside it, and OVS with all pods of a node as much as one of the node's containerd-shims. On a busy machine OVS then
	// loses packets. A kubelet on a host gives its pods 1024 for each processor. With more for the lab its tests starve.
	labShares  = 4 * 1024
	podsShares = 16 * 1024
)

// hierarchy is one cgroup tree of the host: several with cgroup v1, one with v2.
type hierarchy struct {
	options string // of its mount: v1 controllers; "" for v2
	mount   string // where host and machine have it
	own     string // group of this process, from the top
}

// hierarchies reads /proc/self/cgroup; those that are mounted in an unusual place are left out.
func hierarchies() ([]hierarchy, error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var list []hierarchy
	for line := range strings.Lines(string(self)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		h := hierarchy{options: fields[1], own: fields[2], mount: filepath.Join(cgroupRoot, strings.TrimPrefix(fields[1], "name="))}
		switch {
		case fields[1] == "" && isV2():
			h.mount = cgroupRoot
		case fields[1] == "":
			h.mount = filepath.Join(cgroupRoot, "unified")
		case strings.HasPrefix(fields[1], "name="):
			h.options = "none," + fields[1]
		}
		if _, err := os.Stat(filepath.Join(h.mount, "cgroup.procs")); err == nil {
			list = append(list, h)
		}
	}
	return list, nil
}

// isV2 tells whether the host has cgroup v2 alone.
func isV2() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// joinCgroups moves this process into a group for the machine in every hierarchy
// and makes that the root of what it sees. The new cgroup namespace is one
// thread's: the caller locks its thread and executes itself again.
func joinCgroups(lab, name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		// Limits of the host's own group go on with v1. A v2 group that has
		// processes cannot have limited groups below it, so it goes to the top.
		dir := filepath.Join(h.mount, h.own)
		if _, err := os.Stat(dir); err != nil || isV2() {
			dir = h.mount
		}
		for _, level := range []string{cgroupPrefix + lab, name} {
			if isV2() {
				delegate(dir)
			}
			dir = filepath.Join(dir, level)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making cgroup: %w", err)
			}
			if err := inheritCpuset(dir); err != nil {
				return err
			}
		}
		if err := setShares(filepath.Dir(dir), labShares); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("joining cgroup: %w", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a cgroup namespace: %w", err)
	}
	return nil
}

// inheritCpuset gives a new cpuset of v1 its parent's processors: it has none, and takes no process.
func inheritCpuset(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || strings.TrimSpace(string(value)) != "" || isV2() {
			continue
		}
		value, err = os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return fmt.Errorf("setting %s: %w", filepath.Join(dir, file), err)
		}
	}
	return nil
}

// setShares sets the processor time that a group has beside others, where the hierarchy is about that. In v2 100 is what 1024 is in v1.
func setShares(dir string, shares int) error {
	for file, value := range map[string]int{"cpu.shares": shares, "cpu.weight": shares * 100 / 1024} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(value)), 0o644); err != nil {
			return fmt.Errorf("setting %s: %w", filepath.Join(dir, file), err)
		}
	}
	return nil
}

// ownCgroups makes the machine's own groups.
func ownCgroups() error {
	if err := leaveRootCgroup(); err != nil {
		return err
	}
	return favourPods()
}

// favourPods makes the group of the machine's containers before containerd does.
func favourPods() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.options != "" && !slices.Contains(strings.Split(h.options, ","), "cpu") {
			continue
		}
		dir := filepath.Join(h.mount, podsGroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making cgroup: %w", err)
		}
		if err := setShares(dir, podsShares); err != nil {
			return err
		}
	}
	return nil
}

// delegate allows a v2 group's controllers below it, as many as can be.
func delegate(dir string) {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for controller := range strings.FieldsSeq(string(controllers)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}
}

// cgroupMounts show a machine its own part of every hierarchy.
func cgroupMounts(root string) ([]mount, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var list []mount
	if !isV2() {
		list = append(list, mount{from: "tmpfs", to: filepath.Join(root, cgroupRoot), kind: "tmpfs", data: "mode=755"})
	}
	for _, h := range all {
		m := mount{from: "cgroup", to: filepath.Join(root, h.mount), kind: "cgroup", data: h.options}
		if h.options == "" {
			m.kind = "cgroup2"
		}
		list = append(list, m)
	}
	return list, nil
}

// leaveRootCgroup moves the init out of the machine's v2 root, which could not have limited groups else.
func leaveRootCgroup() error {
	if !isV2() {
		return nil
	}
	leaf := filepath.Join(cgroupRoot, "init")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("joining cgroup %s: %w", leaf, err)
	}
	delegate(cgroupRoot)
	return nil
}

// RemoveCgroups removes what a machine of a lab had in the host's cgroup trees; what all had if name is "".
func RemoveCgroups(lab, name string) error {
	var found []string
	err := filepath.WalkDir(cgroupRoot, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // others remove theirs meanwhile
		}
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == cgroupPrefix+lab {
			found = append(found, filepath.Join(path, name))
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range found {
		errs = append(errs, removeCgroup(dir))
	}
	return errors.Join(errs...)
}

// removeCgroup waits for the last processes of a group: those that were killed may still be ending.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeCgroup(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Rmdir(dir)
		if err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
	}
}
