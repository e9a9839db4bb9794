package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

const (
	// returnTimeout is how long a driver may take to make a netdev again, and a link to come up: the link training of a
	// fast port takes seconds.
	returnTimeout = 30 * time.Second
	// nameTimeout is Mover's.
	nameTimeout = 3 * time.Second
	// lacpTimeout is three times the longest pause between two LACPDUs of a switch.
	lacpTimeout = 90 * time.Second
	// undoTimeout bounds an undo, which continues while the agent ends.
	undoTimeout = 2 * time.Minute
)

// NIC changes the mode; the kernel behind pkg/netdev is one.
type NIC interface {
	SetEswitchMode(address, mode string) error
}

// Gateway keeps the node's bridges; *gateway.Setup is one.
type Gateway interface {
	// Pause waits for the end of a pass, and no other begins before resume.
	Pause() (resume func())
	// Detach takes a NIC out of a bridge of the agent, and Attach puts it back; other NICs stay as they are.
	Detach(ctx context.Context, nic string) (bool, error)
	Attach(ctx context.Context, nic string) error
	// Reachable names the probes that succeed, and Verify waits until these do again.
	Reachable(ctx context.Context) []string
	Verify(ctx context.Context, probes []string) error
}

// Deps is what a Mover works with.
type Deps struct {
	Netns   node.Netns
	NIC     NIC
	Gateway Gateway
	// Uplink names the netdev of a NIC's physical port, "" while there is none.
	Uplink func(device string) (string, error)
	Logger *slog.Logger
}

// Mover changes modes, one NIC at a time.
type Mover struct {
	deps       Deps
	host       *node.Host
	file, boot string
	// nameTimeout is how long udev may take to give a new netdev its former name, and lacpTimeout how long the switch may
	// take to negotiate.
	nameTimeout, lacpTimeout time.Duration

	mu    sync.Mutex
	saved checkpoint
	// resume ends the pause of the gateway, nil while there is none.
	resume func()
}

// New makes a Mover. If a change was interrupted in this boot of the host, the gateway pauses until Resume.
func New(file, boot string, deps Deps) (*Mover, error) {
	m := &Mover{deps: deps, file: file, boot: boot, nameTimeout: nameTimeout, lacpTimeout: lacpTimeout, host: &node.Host{Deps: node.Deps{Netns: deps.Netns, Logger: deps.Logger}}}
	if _, err := durable.Load(file, &m.saved); err != nil {
		return nil, fmt.Errorf("reading the record of an uplink: %w", err)
	}
	if m.saved.Move != nil && m.saved.Move.Boot == boot {
		m.pause()
	}
	return m, nil
}

// Undone tells of changes that were undone in this boot of the host, by PCI address.
func (m *Mover) Undone() map[string]Undone {
	m.mu.Lock()
	defer m.mu.Unlock()
	undone := maps.Clone(m.saved.Undone)
	maps.DeleteFunc(undone, func(_ string, u Undone) bool { return u.Boot != m.boot })
	return undone
}

// Resume ends what a crash, or an undo that failed, has left. Without such a change it does nothing.
func (m *Mover) Resume(ctx context.Context) error {
	move := m.saved.Move
	switch {
	case move == nil:
		return nil
	case move.Boot != m.boot: // the boot has undone the change
		return m.save(func(c *checkpoint) { c.Move = nil })
	}
	m.deps.Logger.Warn("continuing an interrupted change of the eswitch's mode", "device", move.Device)
	if move.Undoing != "" {
		return m.undo(ctx, *move, errors.New(move.Undoing))
	}
	return m.finish(ctx, *move, m.restore(ctx, *move))
}

// Change sets the mode. An error after the first change means that the former mode is back, or that Resume has to bring
// it back.
func (m *Mover) Change(ctx context.Context, c Change) error {
	r, err := m.record(ctx, c)
	if err != nil {
		return err
	}
	if err := m.save(func(c *checkpoint) { c.Move = &r }); err != nil {
		return err
	}
	m.pause()
	return m.finish(ctx, r, m.set(ctx, r, c.To))
}

// record is taken while the gateway may work: the gateway moves addresses on links that it has, and those are
// no addresses of the NIC.
func (m *Mover) record(ctx context.Context, c Change) (record, error) {
	r := record{Change: c, Boot: m.boot, Baseline: reachable(ctx, m.deps.Gateway)}
	if len(r.Baseline) == 0 {
		return r, errors.New("neither the API server nor the Southbound database is reachable: nothing would show that the node is cut off")
	}
	name, err := m.deps.Uplink(c.Device)
	if err != nil {
		return r, err
	}
	var st node.State
	if err := m.host.ObserveHost(&st); err != nil {
		return r, fmt.Errorf("observing the host: %w", err)
	}
	link, ok := st.Links[name]
	if !ok {
		return r, fmt.Errorf("%s has no netdev", c.Device)
	}
	r.Link = netdevSettings{Name: name, MAC: append([]byte(nil), link.MAC...), MTU: link.MTU, Carrier: link.Carrier}
	for bond, l := range st.Links {
		if l.Index == link.Master && l.Type == "bond" {
			r.Bond = bond
			r.Link.LACP = link.LACP != nil && link.LACP.Negotiated
		}
	}
	r.Addresses = st.Addrs[name]
	for _, route := range st.Routes {
		if route.Link == name && node.IsConfigured(route) {
			r.Routes = append(r.Routes, route)
		}
	}
	r.Sysctls = sysctlsOf(st, name)
	return r, nil
}

// reachable gives OVS some time: it may just have started again for the same policy.
func reachable(ctx context.Context, gateway Gateway) []string {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for range 10 {
		if names := gateway.Reachable(ctx); len(names) > 0 {
			return names
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// set changes the mode while the gateway pauses.
func (m *Mover) set(ctx context.Context, r record, mode string) error {
	detached, err := detach(ctx, m.host, m.deps.Gateway, r)
	if err == nil && detached {
		err = m.await(ctx, node.StepTimeout, func(st node.State) bool { return st.Links[r.Link.Name].Master == 0 })
	}
	if err != nil {
		return fmt.Errorf("taking %s out of its bridge: %w", r.Link.Name, err)
	}
	if err := m.deps.NIC.SetEswitchMode(r.Device, mode); err != nil {
		return err
	}
	return m.restore(ctx, r)
}

// detach takes the NIC out of what has it as a port: its bond, whose other port goes on, or a bridge of the agent.
func detach(ctx context.Context, host *node.Host, gateway Gateway, r record) (bool, error) {
	if r.Bond == "" {
		return gateway.Detach(ctx, r.Link.Name)
	}
	var st node.State
	if err := host.ObserveHost(&st); err != nil {
		return false, fmt.Errorf("observing the host: %w", err)
	}
	if st.Links[r.Link.Name].Master == 0 { // also when the netdev has vanished
		return false, nil
	}
	return true, host.Run(ctx, []node.Step{node.SetLink{Name: r.Link.Name, Settings: netdev.Settings{NoMaster: true}}})
}

// finish lets the gateway go on and verifies that the node is reachable.
func (m *Mover) finish(ctx context.Context, r record, err error) error {
	if err == nil {
		m.release()
		err = m.verify(ctx, r)
	}
	if err != nil {
		return m.undo(ctx, r, err)
	}
	return m.save(func(c *checkpoint) {
		c.Move = nil
		delete(c.Undone, r.Device)
	})
}

// undo sets the former mode. The record stays if this fails: the next start of the agent tries again.
func (m *Mover) undo(ctx context.Context, r record, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	m.deps.Logger.Warn("undoing the change of the eswitch's mode", "device", r.Device, "error", cause)
	r.Undoing = cause.Error()
	if err := m.save(func(c *checkpoint) { c.Move = &r }); err != nil {
		return errors.Join(cause, err)
	}
	m.pause()
	defer m.release()
	if err := m.set(ctx, r, r.From); err != nil {
		return errors.Join(cause, fmt.Errorf("undoing it: %w", err))
	}
	err := m.save(func(c *checkpoint) {
		c.Move = nil
		if c.Undone == nil {
			c.Undone = map[string]Undone{}
		}
		c.Undone[r.Device] = Undone{Boot: m.boot, Reason: r.Reason, Error: r.Undoing}
	})
	return errors.Join(cause, err)
}

// verify gives the link time to come up and to negotiate LACP again, and then the servers ten seconds to be reached.
func (m *Mover) verify(ctx context.Context, r record) error {
	if r.Link.Carrier {
		if err := m.await(ctx, returnTimeout, func(st node.State) bool { return st.Links[r.Link.Name].Carrier }); err != nil {
			return fmt.Errorf("%s has no carrier: %w", r.Link.Name, err)
		}
	}
	if r.Link.LACP {
		if err := m.await(ctx, m.lacpTimeout, r.carries); err != nil {
			return fmt.Errorf("%s has not negotiated LACP with the switch again: %w", r.Link.Name, err)
		}
	}
	return m.deps.Gateway.Verify(ctx, r.Baseline)
}

// carries says that the bond sends over the port again, so that the bond's other port may follow.
func (r record) carries(st node.State) bool {
	port, bond := st.Links[r.Link.Name].LACP, st.Links[r.Bond].LACP
	return port != nil && bond != nil && port.Carries(*bond)
}

// pause is idempotent, as release is.
func (m *Mover) pause() {
	if m.resume == nil {
		m.resume = m.deps.Gateway.Pause()
	}
}

func (m *Mover) release() {
	if m.resume != nil {
		m.resume()
		m.resume = nil
	}
}

// save writes the file before the change is believed.
func (m *Mover) save(change func(*checkpoint)) error {
	next := m.saved.clone()
	change(&next)
	if err := durable.Save(m.file, next); err != nil {
		return fmt.Errorf("recording the uplink: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = next
	return nil
}
