package unixctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// daemon answers as ovs-vswitchd does: one reply to each request.
func daemon(t *testing.T, answer func(method string, params []string, out net.Conn)) Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl") // short: the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write(t, dir, "d.pid", "42\n")
	listener, err := net.Listen("unix", filepath.Join(dir, "d.42.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var request struct {
					Method string
					Params []string
					ID     *int
				}
				if json.NewDecoder(conn).Decode(&request) == nil && request.Params != nil && request.ID != nil {
					answer(request.Method, request.Params, conn)
				}
			}()
		}
	}()
	return Client{Dir: dir, Daemon: "d"}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCall_GivesResultsAndErrors(t *testing.T) {
	c := daemon(t, func(method string, params []string, out net.Conn) {
		switch method {
		case "echo":
			text, _ := json.Marshal(strings.Join(params, "\n"))
			fmt.Fprintf(out, `{"id":0,"result":%s,"error":null}`, text)
		case "refuse":
			fmt.Fprint(out, `{"error":"\"refuse\" is not a valid command\n","id":0,"result":null}`)
		case "object":
			fmt.Fprint(out, `{"id":0,"result":{"a":1},"error":null}`)
		case "half":
			fmt.Fprint(out, `{"id":0,"result":"abc`)
		}
	})
	text, err := c.Call(t.Context(), "echo", "-m", `a "b" é	\`)
	if want := "-m\na \"b\" é\t\\\n"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	if text, err = c.Call(t.Context(), "echo"); err != nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	var refused *Refused
	if _, err = c.Call(t.Context(), "refuse"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "not a valid command") {
		t.Error(err)
	}
	if _, err = c.Call(t.Context(), "object"); err == nil || !strings.Contains(err.Error(), "result is not a text") {
		t.Error(err)
	}
	if _, err = c.Call(t.Context(), "half"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	stop := errors.New("enough")
	if err = c.Lines(t.Context(), func(string) error { return stop }, "echo", "a", "b"); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestCall_EndsAtItsDeadline(t *testing.T) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	c := daemon(t, func(string, []string, net.Conn) { <-done })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestInstance_ChangesWithEachStart(t *testing.T) {
	c := daemon(t, nil)
	first, err := c.Instance()
	if err != nil || first.PID != 42 {
		t.Fatal(first, err)
	}
	socket := filepath.Join(c.Dir, "d.42.ctl")
	if err := os.Chtimes(socket, time.Time{}, first.Started.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	// A container's daemon has the same pid in every life.
	if second, err := c.Instance(); err != nil || second == first {
		t.Error(second, err)
	}
	os.Remove(socket)
	if _, err := c.Instance(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	write(t, c.Dir, "d.pid", "")
	if _, err := c.Instance(); err == nil {
		t.Error("a pid out of an empty file")
	}
}

func TestProcessorTime_OfNamedProcessOnly(t *testing.T) {
	c := daemon(t, nil)
	c.Proc = t.TempDir()
	process := filepath.Join(c.Proc, "42")
	if err := os.Mkdir(process, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		comm, schedstat string
		want            time.Duration
		problem         string
	}{
		{"d\n", "1500000000 42 7\n", 1500 * time.Millisecond, ""},
		{"sleep\n", "1500000000 42 7\n", 0, `process 42 is "sleep"`},
		{"d\n", "0 0 0\n", 0, "counts no processor time"},
		{"d\n", "", 0, "schedstat"},
	} {
		write(t, process, "comm", tc.comm)
		write(t, process, "schedstat", tc.schedstat)
		got, err := c.ProcessorTime()
		if got != tc.want || (err != nil) != (tc.problem != "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%q, %q: %s, %v", tc.comm, tc.schedstat, got, err)
		}
	}
	if err := os.RemoveAll(process); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ProcessorTime(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
}

// FuzzReply: what encoding/json writes, in either order, comes out line by line;
// cut off anywhere it is an error; and no bytes at all break it.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"", "a\nb\n", "\n\n", "tab\t \"quoted\" <é> \x01 \U0001f600 \\", `{"result":"x"}`, `{"result":"\ud83d\ude00\ud800x\/"}`, "{"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		_, _, _ = parse(text)
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var clean string // without what is not UTF-8
		if err := json.Unmarshal(quoted, &clean); err != nil {
			t.Fatal(err)
		}
		var want []string
		if clean != "" {
			want = strings.Split(strings.TrimSuffix(clean, "\n"), "\n")
		}
		answer := fmt.Sprintf(`{"id":0, "error":null, "result":%s}`, quoted)
		got, _, err := parse(answer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		got, r, err := parse(fmt.Sprintf("{\"error\":%s,\n\"result\":null,\"id\":0}\n", quoted))
		if err != nil || !r.refused || r.text != clean || got != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if _, _, err := parse(answer[:max(cut, -cut, 0)%len(answer)]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut off: %v", err)
		}
	})
}

func parse(text string) ([]string, reply, error) {
	var lines []string
	r := reply{in: bufio.NewReader(strings.NewReader(text)), line: func(s string) error {
		lines = append(lines, s)
		return nil
	}}
	err := r.read()
	return lines, r, err
}

func TestRuns_AsksForTheProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		pid, process, comm string
		want               bool
	}{
		"it runs":                     {"42\n", "42", "ovs-vswitchd\n", true},
		"ended with its pid file":     {"", "42", "ovs-vswitchd\n", false},
		"killed":                      {"42\n", "41", "ovs-vswitchd\n", false},
		"killed, another has its pid": {"42\n", "42", "sleep\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, proc := t.TempDir(), t.TempDir()
			if tt.pid != "" {
				write(t, dir, "ovs-vswitchd.pid", tt.pid)
			}
			if err := os.Mkdir(filepath.Join(proc, tt.process), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(proc, tt.process), "comm", tt.comm)
			if got := (Client{Dir: dir, Daemon: "ovs-vswitchd", Proc: proc}).Runs(); got != tt.want {
				t.Errorf("runs: %v", got)
			}
		})
	}
	unreadable := Client{Dir: t.TempDir(), Daemon: "ovs-vswitchd", Proc: "/proc"}
	if err := os.Mkdir(filepath.Join(unreadable.Dir, "ovs-vswitchd.pid"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !unreadable.Runs() || !(Client{Dir: t.TempDir(), Daemon: "ovs-vswitchd"}).Runs() {
		t.Error("what is not known does not run")
	}
}
