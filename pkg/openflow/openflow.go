// Package openflow keeps the OpenFlow table of a bridge as wanted: the gateway
// bridge of a node, whose flows the agent owns. Those of br-int are
// ovn-controller's; pkg/conntrack reads them here.
//
// It is the door to ovs-ofctl, which knows every match and action of the OVS
// beside it and replaces a table by its difference in one bundle; no Go library
// does. Flows belong to a node, never to a pod, so no process is started on a
// pod's way. Data flow: pkg/node builds flows from facts, Replace makes the
// bridge have them, Watch says when somebody changed them or the switch
// restarted, and then Replace runs again.
package openflow

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"
)

// version is what the commands speak: bundles need 1.4. To ask for one group needs
// 1.5, in whose notation actions of flows read otherwise.
const version, versionOfGroups = "OpenFlow14", "OpenFlow15"

// Tables are the flow tables of the switch on this machine.
type Tables struct{ Log *slog.Logger }

// Replace makes flows, in ovs-ofctl's notation, the whole content of the
// bridge's tables. What is there already is left alone, so its counters and
// connections live on. Bridge is a name or the path of its management socket.
func (Tables) Replace(ctx context.Context, bridge string, flows []string) error {
	cmd := exec.CommandContext(ctx, "ovs-ofctl", "-O", version, "--bundle", "replace-flows", bridge, "-")
	cmd.Stdin = strings.NewReader(strings.Join(flows, "\n") + "\n")
	return run(cmd, "replacing the flows of "+bridge)
}

// Dump gives the bridge's flows without counters, one by one, as ovs-ofctl prints
// them: on br-int they are tens of megabytes. With a match, in ovs-ofctl's notation,
// they are those whose own match includes it. With an error, some are missing.
func (Tables) Dump(ctx context.Context, bridge, match string, flow func(string)) error {
	return lines(exec.CommandContext(ctx, "ovs-ofctl", "-O", version, "--no-stats", "dump-flows", bridge, match), "reading the flows of "+bridge, flow)
}

// Groups gives the bridge's groups as Dump does its flows; with an id, that group if it is there.
func (Tables) Groups(ctx context.Context, bridge, id string, group func(string)) error {
	cmd := exec.CommandContext(ctx, "ovs-ofctl", "-O", versionOfGroups, "dump-groups", bridge)
	if id != "" {
		cmd.Args = append(cmd.Args, id)
	}
	return lines(cmd, "reading the groups of "+bridge, group)
}

// Watch calls changed with ovs-ofctl's line of each flow of the bridge that changed,
// by anybody, with actions, and with a line at least each time that the switch is
// there again after it was away: all flows are new then.
// Watch ends with ctx. While the switch is away, the log says so less and less often.
func (t Tables) Watch(ctx context.Context, bridge string, changed func(flow string)) {
	for failures := 1; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := watchOnce(ctx, bridge, changed)
		if time.Since(began) > time.Minute {
			failures = 1
		}
		if ctx.Err() == nil && failures&(failures-1) == 0 {
			t.Log.Info("the switch is away", "device", bridge, "failures", failures, "error", err)
		}
		// The switch went or was not there: its return is a new connection.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// watchOnce returns when the switch is away, or when the monitor ends for a reason
// of its own, which is what it said last.
func watchOnce(ctx context.Context, bridge string, changed func(string)) error {
	// The monitor's first reply holds every flow: it marks the connection too.
	// What follows, it prints to standard error.
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

// splitter hands on whole lines, of any length.
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
