// Package openflow writes and reads the OpenFlow tables of a bridge. The agent owns the flows of a node's gateway
// bridge. ovn-controller owns the flows of br-int, which pkg/conntrack reads through this package.
//
// Data flow: pkg/node/flows builds flows from facts, Replace writes the flows into the bridge, and Watch reports a
// changed flow or a restart of ovs-vswitchd. Then pkg/node/gateway calls Replace again.
//
// The package runs ovs-ofctl, which knows every match and action of its OVS and replaces a table by the difference in
// one bundle. No Go library does. Flows of the gateway bridge depend on the node and not on a pod, so no process is
// started for a pod.
package openflow

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// version is the OpenFlow version of the commands: bundles need 1.4. A request for one group needs 1.5, which prints
// actions of flows in another notation.
const version, versionOfGroups = "OpenFlow14", "OpenFlow15"

// Tables are the flow tables of the ovs-vswitchd on this host.
type Tables struct{ Log *slog.Logger }

// Replace makes flows, in ovs-ofctl's notation, the whole content of the bridge's tables. Flows that the bridge has
// already stay unchanged, with their counters. Bridge is a name or the path of a management socket.
func (Tables) Replace(ctx context.Context, bridge string, flows []string) error {
	table, err := inMemory(strings.Join(flows, "\n") + "\n")
	if err != nil {
		return fmt.Errorf("replacing the flows of %s: %w", bridge, err)
	}
	defer table.Close()
	cmd := exec.CommandContext(ctx, "ovs-ofctl", "-O", version, "--bundle", "replace-flows", bridge, "-")
	cmd.Stdin = table
	return run(cmd, "replacing the flows of "+bridge)
}

// inMemory gives a file of memory with the text, to be read from its beginning. A pipe would end where this process
// is killed, and ovs-ofctl would take a part of a table, or an empty one, for the whole.
func inMemory(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("flows", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "flows")
	if _, err = file.WriteString(text); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// Dump passes the bridge's flows to flow one by one, without counters, in ovs-ofctl's notation: br-int has tens of
// megabytes of flows. With a match, Dump passes the flows whose own match includes the match. After an error, some flows
// are missing.
func (Tables) Dump(ctx context.Context, bridge, match string, flow func(string)) error {
	return lines(exec.CommandContext(ctx, "ovs-ofctl", "-O", version, "--no-stats", "dump-flows", bridge, match), "reading the flows of "+bridge, flow)
}

// Groups passes the bridge's groups to group one by one; with an id, this group if it exists.
func (Tables) Groups(ctx context.Context, bridge, id string, group func(string)) error {
	cmd := exec.CommandContext(ctx, "ovs-ofctl", "-O", versionOfGroups, "dump-groups", bridge)
	if id != "" {
		cmd.Args = append(cmd.Args, id)
	}
	return lines(cmd, "reading the groups of "+bridge, group)
}

// Watch calls changed with ovs-ofctl's line, with actions, of each flow of the bridge that changes, whichever process
// changes the flow. A new connection to ovs-vswitchd calls changed at least once: all flows are new then. Watch ends
// with ctx. While ovs-vswitchd is unreachable, log messages get rarer.
func (t Tables) Watch(ctx context.Context, bridge string, changed func(flow string)) {
	for failures := 1; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := watchOnce(ctx, bridge, changed)
		if time.Since(began) > time.Minute {
			failures = 1
		}
		if ctx.Err() == nil && failures&(failures-1) == 0 {
			t.Log.Info("the flow monitor of a bridge is disconnected", "device", bridge, "failures", failures, "error", err)
		}
		// ovs-vswitchd ended or does not run: the next attempt is a new connection.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// watchOnce returns when the monitor ends. The error has the last line of the monitor's output.
func watchOnce(ctx context.Context, bridge string, changed func(string)) error {
	// The monitor's first reply has every flow, so a new connection calls changed too. The monitor prints later reports
	// to standard error.
	cmd := exec.CommandContext(ctx, "ovs-ofctl", "monitor", bridge, "watch:")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	reports, last := bufio.NewReader(out), "" // no Scanner: a flow may be of any length
	for {
		report, err := reports.ReadString('\n')
		if err != nil {
			if err = cmd.Wait(); err != nil {
				err = fmt.Errorf("%w: %s", err, last)
			}
			return err
		}
		last = strings.TrimSuffix(report, "\n")
		changed(last)
	}
}

func lines(cmd *exec.Cmd, what string, line func(string)) error {
	cmd.Stdout = &splitter{line: line}
	return run(cmd, what)
}

// splitter passes whole lines of any length to line.
type splitter struct {
	begun []byte
	line  func(string)
}

func (s *splitter) Write(text []byte) (int, error) {
	for part := range bytes.Lines(text) {
		s.begun = append(s.begun, part...)
		if part[len(part)-1] == '\n' {
			s.line(string(bytes.TrimSpace(s.begun)))
			s.begun = s.begun[:0]
		}
	}
	return len(text), nil
}

func run(cmd *exec.Cmd, what string) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
