package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// retryPause is the least time between a takeover that was undone and the next.
const retryPause = time.Minute

// bridge is an external bridge of the host, and what is remembered of it; of the loop's goroutine only.
type bridge struct {
	*node.Host
	cfg  Config
	deps Deps
	// retry is when a takeover may be tried again.
	retry time.Time
	// vfRetry is when a VF may get the addresses again.
	vfRetry time.Time
	// linksChanged is State.LinksChanged of this pass.
	linksChanged bool
	// watched is the bridge whose flows are.
	watched string
}

// keep brings the bridge about and mends it.
func (b *bridge) keep(ctx context.Context, st State, g Gateway) error {
	if wait := time.Until(b.retry); st.Saved == nil && wait > 0 {
		return fmt.Errorf("the last takeover of %s was undone, the next is due in %s", g.NIC, wait.Round(time.Second))
	}
	if st.Saved != nil && st.Ours[g.Bridge] {
		if err := b.Commit(ctx, gatewayRows(b.cfg, *st.Saved, st.Ours[g.NIC])); err != nil {
			b.Deps.Logger.Warn("repairing the rows of the gateway bridge", "device", g.Bridge, "error", err)
		}
	}
	move := moving(st, g)
	if move {
		st.Reachable = b.Reachable(ctx)
	}
	steps, waiting := planGateway(b.cfg, st, g)
	if err := b.Run(ctx, steps); err != nil {
		if move {
			b.quarantine(g, err)
		}
		return b.rollback(ctx, err)
	}
	return waiting
}

// rollback undoes a takeover that went wrong after the NIC was touched and before it was verified. Other errors are
// left to the next pass: the host has its address on one side.
func (b *bridge) rollback(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*node.StepTimeout)
	defer cancel()
	st, err := b.observe(ctx)
	if err != nil || st.Saved == nil || st.Saved.Verified || !st.Ours[st.Saved.Interface] {
		return errors.Join(cause, err)
	}
	b.retry = time.Now().Add(retryPause)
	b.Deps.Logger.Warn("undoing the takeover", "device", st.Saved.Interface, "error", cause)
	return errors.Join(cause, b.release(ctx, st))
}

// failBack puts the NIC's addresses back on it.
func (b *bridge) failBack(ctx context.Context) error {
	st, err := b.observe(ctx)
	if err != nil || st.Saved == nil {
		return err
	}
	if st.Lost != nil {
		return st.Lost
	}
	if st.Renewed { // nothing has left the NIC since the host has booted
		return nil
	}
	return b.Run(ctx, append(planFailback(st, *st.Saved), leaveDatapath(b.cfg, st, *st.Saved)...))
}
