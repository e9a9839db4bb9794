package testbed

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakePrograms has docker and kind print their arguments, a line each, into a file.
func fakePrograms(t *testing.T) (calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	for _, name := range []string{"docker", "kind"} {
		script := "#!/bin/sh\nfor a in " + name + ` "$@"; do printf '%s|' "$a"; done | tr '\n' ';' >>` + log + "\necho >>" + log + "\necho said\n[ \"$4\" != missing ]\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

func TestKind_VerbsCallDockerAndKind(t *testing.T) {
	calls := fakePrograms(t)
	k, err := NewKind("ovn", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, err := range []error{
		k.Run(&out, "ovn-worker", "ip", "-br", "link"), k.RunExternal(&out, "probe", "serve", "9090"), k.Restart("agent@ovn-worker"), k.Load("image.tar"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"kind|get|kubeconfig|--name|ovn|", "docker|exec|ovn-worker-tools|ip|-br|link|", "docker|exec|ovn-outside|probe|serve|9090|",
		"docker|exec|ovn-worker-tools|sh|-c|old=$(pgrep", "kind|load|image-archive|image.tar|--name|ovn|",
	}
	got := calls()
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Errorf("call %d: want %s in %q", i, w, got)
		}
	}
	if out.String() != "said\nsaid\n" {
		t.Errorf("output %q", out.String())
	}
	_, config := k.Kubectl()
	if text, err := os.ReadFile(config); err != nil || string(text) != "said\n" {
		t.Errorf("configuration %q, %v", text, err)
	}
}

func TestKind_FailuresAreErrors(t *testing.T) {
	fakePrograms(t)
	k := Kind{name: "ovn"}
	if err := k.Run(&bytes.Buffer{}, "ovn-worker", "ip", "missing"); err == nil {
		t.Error("a command that fails on a node passes")
	}
	if err := k.RunExternal(&bytes.Buffer{}, "probe", "missing"); err == nil {
		t.Error("a command that fails on the external host passes")
	}
	if err := k.Restart("kubelet@ovn-worker"); err == nil || !strings.Contains(err.Error(), "no component") {
		t.Errorf("an unknown component: %v", err)
	}
}

func TestKind_RestartedWaitsForAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	write := func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// The first answer is the old process, the second too, the third another.
	write("pgrep", `n=$(cat `+dir+`/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >`+dir+`/n; if [ $n -lt 3 ]; then echo 999999999; else echo 999999998; fi`)
	write("sleep", "")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	if err := run(&out, "sh", "-c", restarted, "sh", "pattern"); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if n, err := os.ReadFile(filepath.Join(dir, "n")); err != nil || strings.TrimSpace(string(n)) != "3" {
		t.Errorf("asked %q times, want 3", n)
	}
	write("pgrep", "exit 1")
	if err := run(&out, "sh", "-c", restarted, "sh", "pattern"); err == nil {
		t.Error("a component that does not run is restarted")
	}
}
