package machine

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// served gives the client's end of a connection that a command is served on.
func served(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() { serveCommand(server); _ = server.Close(); close(done) }()
	t.Cleanup(func() { _ = client.Close(); <-done })
	return client
}

func TestCommand_PassesStreamsAndExitCode(t *testing.T) {
	long := strings.Repeat("x", 3*maxMessage/2)
	for _, c := range []struct {
		script, in string
		exit       int
		out, err   string
	}{
		{script: "cat; echo complaint >&2; exit 3", in: "hello", exit: 3, out: "hello", err: "complaint\n"},
		{script: "cat", in: long, out: long},
		{script: "kill -KILL $$", exit: 128 + 9},
	} {
		var out, complaints bytes.Buffer
		exit, err := command(served(t), []string{"sh", "-c", c.script}, strings.NewReader(c.in), &out, &complaints)
		if err != nil || exit != c.exit || out.String() != c.out || complaints.String() != c.err {
			t.Errorf("%s: exit %d, %v, %d bytes, %q", c.script, exit, err, out.Len(), complaints.String())
		}
	}
	var complaints bytes.Buffer
	exit, err := command(served(t), []string{"no-such-program"}, strings.NewReader(""), &complaints, &complaints)
	if err != nil || exit != 127 || !strings.Contains(complaints.String(), "no-such-program") {
		t.Errorf("exit %d, %v, %q", exit, err, complaints.String())
	}
}

// TestCommand_EndsWithItsClient: a command does not outlive who asked for it.
func TestCommand_EndsWithItsClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	client := served(t)
	gone := make(chan error, 1)
	go func() {
		_, err := command(client, []string{"sh", "-c", "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000"}, strings.NewReader(""), os.Stdout, os.Stderr)
		gone <- err
	}()
	var pid int
	for deadline := time.Now().Add(10 * time.Second); pid == 0; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		if err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	_ = client.Close()
	if err := <-gone; err == nil {
		t.Error("a command that was cut off has ended well")
	}
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}
