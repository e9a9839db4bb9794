//go:build bench

package switchdev

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const driver = "/sys/bus/pci/drivers/swsim/"

// try runs a program and gives what it printed.
func try(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := try(args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// inside are the words that run a program in a namespace.
func inside(ns string, args ...string) []string {
	return append([]string{"ip", "netns", "exec", ns}, args...)
}

// batch runs commands of ip(8) in one process: processes are slow in there.
func batch(t testing.TB, ns string, commands ...string) {
	t.Helper()
	cmd := exec.Command("ip", "-n", ns, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q in %s: %v\n%s", commands, ns, err, out)
	}
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

// eventually waits for what has no event to wait for.
func eventually(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, limit)
}

// nics are the addresses of the PFs, in order.
func nics(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(driver + "0000:*")
	if err != nil {
		t.Fatal(err)
	}
	var pfs []string
	for _, path := range paths {
		if _, err := os.Stat(path + "/physfn"); err != nil {
			pfs = append(pfs, filepath.Base(path))
		}
	}
	slices.Sort(pfs)
	if len(pfs) == 0 {
		t.Fatal("no NIC: run it with benchvm")
	}
	return pfs
}

// nicSet makes a NIC's VFs and mode anew, in the namespace of the test.
func nicSet(t testing.TB, pci, mode, vfs string) {
	t.Helper()
	write(t, driver+pci+"/sriov_numvfs", "0")
	run(t, "devlink", "dev", "eswitch", "set", "pci/"+pci, "mode", mode)
	if vfs != "0" {
		write(t, driver+pci+"/sriov_numvfs", vfs)
	}
}
