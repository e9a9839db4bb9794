// Package unixctl asks a running OVS daemon through its control socket, as
// ovs-appctl does, but without a process for each question.
//
// The protocol is one JSON-RPC 1.0 request on a Unix stream socket that the
// daemon names after its process, <daemon>.<pid>.ctl; the pid file beside it
// says which of them is alive. An answer is one JSON string that holds the text
// a person would see. The dump of a busy node's flows is over 100 MB of it, so
// Lines hands it on while it arrives.
//
// It is a package of its own because it knows nothing of offload: ovn-controller
// and ovsdb-server answer in the same way. Data flow: offload.Read asks for the
// datapath flows, dpflow parses the lines.
package unixctl

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Client asks one daemon. It keeps no connection: each call finds the process
// that runs now, so a restart of the daemon needs no care.
type Client struct {
	// Dir is OVS's run directory, usually /var/run/openvswitch.
	Dir string
	// Daemon is its name, ovs-vswitchd for one.
	Daemon string
	// Socket, if set, is the control socket, for a daemon that was started with --unixctl.
	Socket string
	// Proc, if set, is a proc file system other than /proc that has the daemon's process.
	Proc string
}

// Instance is one life of a daemon: it differs after a restart.
type Instance struct {
	PID     int
	Started time.Time // when its control socket was made
}

// Refused is a daemon's own answer that it cannot do what was asked.
type Refused struct{ Method, Text string }

func (r *Refused) Error() string {
	return r.Method + ": " + strings.TrimSpace(r.Text)
}

// Instance looks at files only; the process may have died since it wrote them.
func (c Client) Instance() (Instance, error) {
	_, instance, err := c.find()
	return instance, err
}

// find reads the pid as text: it may be one of another pid namespace.
func (c Client) find() (string, Instance, error) {
	if c.Socket != "" {
		return c.Socket, Instance{}, nil
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, c.Daemon+".pid"))
	if err != nil {
		return "", Instance{}, fmt.Errorf("finding %s: %w", c.Daemon, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return "", Instance{}, fmt.Errorf("finding %s: its pid file: %w", c.Daemon, err)
	}
	socket := filepath.Join(c.Dir, fmt.Sprintf("%s.%d.ctl", c.Daemon, pid))
	stat, err := os.Stat(socket)
	if err != nil {
		return "", Instance{}, fmt.Errorf("finding %s: %w", c.Daemon, err)
	}
	return socket, Instance{PID: pid, Started: stat.ModTime()}, nil
}

// Call gives the whole answer; for long ones there is Lines.
func (c Client) Call(ctx context.Context, method string, args ...string) (string, error) {
	var text strings.Builder
	err := c.Lines(ctx, func(line string) error {
		text.WriteString(line)
		text.WriteByte('\n')
		return nil
	}, method, args...)
	return text.String(), err
}

// Lines calls line for each line of the answer, without its end. An error of
// line ends the call and is returned. So does the end of ctx.
func (c Client) Lines(ctx context.Context, line func(string) error, method string, args ...string) error {
	socket, _, err := c.find()
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("asking %s: %w", c.Daemon, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := send(conn, method, args); err != nil {
		return fmt.Errorf("asking %s for %s: %w", c.Daemon, method, because(ctx, err))
	}
	r := reply{in: bufio.NewReaderSize(conn, 64<<10), line: line}
	if err := r.read(); err != nil {
		return fmt.Errorf("reading the answer of %s to %s: %w", c.Daemon, method, because(ctx, err))
	}
	if r.refused {
		return &Refused{Method: method, Text: r.text}
	}
	return nil
}

func send(conn net.Conn, method string, args []string) error {
	if args == nil {
		args = []string{}
	}
	return json.NewEncoder(conn).Encode(struct {
		Method string   `json:"method"`
		Params []string `json:"params"`
		ID     int      `json:"id"`
	}{method, args, 0})
}

// because prefers the reason for which the connection was closed here.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
