package nodeflows

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Ask offers the rule of TC of a refused flow to the driver once more. It is for a process of its own: what serves flows to readers
// changes nothing. From has the flows of the node.
func Ask(ctx context.Context, from flowapi.Source, offer func(link, flow string) (tcrule.Answer, error), id string) (*flowapi.Asked, error) {
	got, err := from.Flows(ctx, flowapi.Query{All: true, Limit: flowapi.MaxLimit})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(got.Flows, func(f flowapi.Flow) bool { return f.ID == id })
	if at < 0 {
		return nil, flowapi.ErrNoFlow
	}
	f := got.Flows[at]
	asked := &flowapi.Asked{ID: id, Port: f.From.Port}
	if asked.Problem = notRefused(f); asked.Problem != "" {
		return asked, nil
	}
	answer, err := offer(asked.Port, id)
	switch {
	case errors.Is(err, tcrule.ErrNoRule):
		asked.Problem = fmt.Sprintf("TC has no rule of the flow on %s now", asked.Port)
		return asked, nil
	case errors.Is(err, tcrule.ErrInHardware):
		asked.Problem = "the NIC has taken the flow meanwhile"
		return asked, nil
	case err != nil:
		return nil, err
	}
	asked.Priority, asked.Taken, asked.Text = answer.Priority, answer.Taken, answer.Text
	if answer.Errno != 0 {
		asked.Error = answer.Errno.Error()
	}
	return asked, nil
}

// notRefused says why the driver is not to be asked about a flow; "": it refused the flow's rule, and TC has it.
func notRefused(f flowapi.Flow) string {
	switch {
	case f.Place == offload.Hardware:
		return "the flow is in hardware"
	case f.Reason != offload.ReasonRefused:
		return fmt.Sprintf("the driver has not refused the flow: it is not in hardware because of %s", f.Reason)
	case f.Place != offload.TC:
		return "TC has no rule of the flow: with tc-policy=skip_sw the kernel keeps none that the driver refused. " +
			"The log of ovs-vswitchd at level debug of netlink_socket has the driver's text"
	}
	return ""
}
