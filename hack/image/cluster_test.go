package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// clustered starts a container of ovn-daemon with programs that record their arguments, and gives its directory.
func clustered(t *testing.T, env []string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	record := `echo "$(basename "$0") $@" >>` + dir + "/commands\n"
	for name, script := range map[string]string{
		"ovn-offload-controller": record, "ovsdb-tool": record + "exit 2", "ovsdb-client": record + "echo no",
		"ovsdb-server": record + "exec sleep 60", "ovn-northd": record + "exec sleep 60", "ovs-appctl": record,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"ca.crt": "authorities", "role": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if args[0] == "relay" {
		if err := os.WriteFile(filepath.Join(dir, "role"), []byte("ovn-controller"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := daemon(context.Background(), dir, args...)
	cmd.Env = append(append(cmd.Env, "OVN_DBDIR="+dir+"/db", "OVN_CERTS="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return dir
}

// command waits for the call of a program, and gives its arguments.
func command(t *testing.T, dir, program string) string {
	t.Helper()
	found := ""
	eventually(t, program+" runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "commands"))
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, program+" "); ok {
				found = strings.TrimSpace(rest)
			}
		}
		return found != ""
	})
	return found
}

type configuration struct {
	Databases map[string]struct {
		Model  string                    `json:"service-model"`
		Source map[string]map[string]int `json:"source"`
	} `json:"databases"`
	Remotes map[string]struct {
		Role  string `json:"role"`
		Probe int    `json:"inactivity-probe"`
	} `json:"remotes"`
}

func configOf(t *testing.T, file string) configuration {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c configuration
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return c
}

// TestMemberContainer_StartsWithTheFileOfOurBinary, at the port for the control plane and without a role.
func TestMemberContainer_StartsWithTheFileOfOurBinary(t *testing.T) {
	for name, port := range map[string]string{"nb": "6641", "sb": "6645"} {
		dir := clustered(t, []string{"OVN_MEMBERS=m1=192.0.2.1,m2=192.0.2.2", "K8S_APISERVER=https://192.0.2.9:6443"}, "member", name)
		file := dir + "/db/ovn" + name + "_db.db"
		command(t, dir, "ovsdb-server")
		want := "member " + name + " --apiserver=https://192.0.2.9:6443 --node=worker --members=m1=192.0.2.1,m2=192.0.2.2 --file=" + file +
			" --schema=/usr/share/ovn/ovn-" + name + ".ovsschema"
		if got := command(t, dir, "ovn-offload-controller"); got != want {
			t.Errorf("our binary was called with %s, want %s", got, want)
		}
		config := configOf(t, dir+"/ovn/ovn"+name+"_db.json")
		if _, ok := config.Databases[file]; !ok || len(config.Remotes) != 2 {
			t.Errorf("%+v", config)
		}
		for remote, settings := range config.Remotes {
			if settings.Role != "" || !strings.HasPrefix(remote, "punix:"+dir) && !strings.HasPrefix(remote, "pssl:"+port+":") {
				t.Errorf("remote %s with role %q", remote, settings.Role)
			}
			if strings.HasPrefix(remote, "pssl:") && settings.Probe != 10000 {
				t.Errorf("remote %s keeps the lock of a lost northd for two times %d ms", remote, settings.Probe)
			}
		}
	}
}

// TestRelayContainer_ServesNodesWithARole from the member of its host.
func TestRelayContainer_ServesNodesWithARole(t *testing.T) {
	dir := clustered(t, nil, "relay")
	command(t, dir, "ovsdb-server")
	config := configOf(t, dir+"/ovn/ovnsb_relay.json")
	database := config.Databases["OVN_Southbound"]
	if _, ok := database.Source["unix:"+dir+"/ovn/ovnsb_db.sock"]; !ok || database.Model != "relay" {
		t.Errorf("%+v", config)
	}
	nodes := 0
	for remote, settings := range config.Remotes {
		if strings.HasPrefix(remote, "pssl:6642:") {
			nodes++
			if settings.Role != "ovn-controller" || settings.Probe != 60000 {
				t.Errorf("remote %s with role %q and a probe of %d ms", remote, settings.Role, settings.Probe)
			}
		}
	}
	if nodes != 1 {
		t.Errorf("remotes %v", config.Remotes)
	}
}

func TestNorthdContainer_UsesMembersOrLocalSockets(t *testing.T) {
	const nb, sb = "ssl:192.0.2.1:6641,ssl:192.0.2.2:6641", "ssl:192.0.2.1:6645,ssl:192.0.2.2:6645"
	dir := clustered(t, []string{"OVN_NB=" + nb, "OVN_SB_MEMBERS=" + sb}, "northd")
	if got := command(t, dir, "ovn-northd"); !strings.HasPrefix(got, "--ovnnb-db="+nb+" --ovnsb-db="+sb+" ") || !strings.Contains(got, "--private-key="+dir+"/tls.key") {
		t.Errorf("with clusters: %s", got)
	}
	dir = clustered(t, nil, "northd")
	if got := command(t, dir, "ovn-northd"); !strings.HasPrefix(got, "--ovnnb-db=unix:"+dir+"/ovn/ovnnb_db.sock --ovnsb-db=unix:"+dir+"/ovn/ovnsb_db.sock ") || strings.Contains(got, "tls.key") {
		t.Errorf("with one server: %s", got)
	}
}

// TestRestore_TakesTheStandardInputAndLeavesNoCopy: ovsdb-client needs a file.
func TestRestore_TakesTheStandardInputAndLeavesNoCopy(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >" + dir + "/called\ncat >" + dir + "/content\n"
	if err := os.WriteFile(filepath.Join(dir, "ovsdb-client"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := daemon(t.Context(), dir, "restore", "nb")
	cmd.Env, cmd.Stdin = append(cmd.Env, "OVN_DBDIR="+dir+"/db"), strings.NewReader("content")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	content, _ := os.ReadFile(filepath.Join(dir, "content"))
	called, _ := os.ReadFile(filepath.Join(dir, "called"))
	if string(content) != "content" || !strings.Contains(string(called), "restore unix:"+dir+"/ovn/ovnnb_db.sock OVN_Northbound") {
		t.Errorf("restored %q by %s", content, called)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "db")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
