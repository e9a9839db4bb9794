// Package openflow keeps the OpenFlow table of a bridge as wanted: the gateway
// bridge of a node, whose flows the agent owns (those of br-int are
// ovn-controller's).
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

// version is what both commands speak: bundles need 1.4.
const version = "OpenFlow14"

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

// Dump lists the bridge's flows without counters, as ovs-ofctl prints them.
func (Tables) Dump(ctx context.Context, bridge string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "ovs-ofctl", "-O", version, "--no-stats", "dump-flows", bridge)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := run(cmd, "reading the flows of "+bridge); err != nil {
		return nil, err
	}
	var flows []string
	for line := range strings.Lines(out.String()) {
		flows = append(flows, strings.TrimSpace(line))
	}
	return flows, nil
}

// Watch sends on changed when a flow of the bridge changed, by anybody, and
// each time that the switch is there again after it was away. A send that nobody
// is ready for is dropped: give a channel with room for one. It ends with ctx.
func (t Tables) Watch(ctx context.Context, bridge string, changed chan<- struct{}) {
	for ctx.Err() == nil {
		if err := watchOnce(ctx, bridge, changed); err != nil && ctx.Err() == nil {
			t.Log.Debug("the switch is away", "device", bridge, "error", err)
		}
		// The switch went or was not there: its return is a new connection.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func watchOnce(ctx context.Context, bridge string, changed chan<- struct{}) error {
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
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cmd.Wait()
}

func run(cmd *exec.Cmd, what string) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
