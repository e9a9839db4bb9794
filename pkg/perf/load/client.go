package load

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// dialWithin is the time for a connection to be there.
	dialWithin = 5 * time.Second
	// patience is the time for what is under way when the load's time is up.
	patience = 10 * time.Second
)

// Run measures. What goes wrong is in the report.
func Run(ctx context.Context, q Question) Report {
	var r Report
	q.Size = cmp.Or(q.Size, DefaultSize(q.Kind, q.Protocol))
	if err := run(ctx, q, &r); err != nil {
		r.Error = err.Error()
	}
	return r
}

func run(ctx context.Context, q Question, r *Report) error {
	if err := q.validate(); err != nil {
		return err
	}
	r.First = time.Now()
	both, err := q.nodes(ctx)
	if err != nil {
		return err
	}
	defer both.conn.Close() //nolint:errcheck // it is only asked
	first, err := both.read()
	if err != nil {
		return err
	}
	time.Sleep(q.Idle) //nolint:forbidigo // it measures the nodes at rest
	idle, err := both.read()
	if err != nil {
		return err
	}
	r.Started = time.Now()
	loaded := q.load(ctx, r)
	if r.Seconds == 0 {
		r.Seconds = time.Since(r.Started).Seconds()
	}
	busy, err := both.read()
	if err == nil {
		r.Client, r.Server = cores(first[0], idle[0], busy[0]), cores(first[1], idle[1], busy[1])
	}
	return errors.Join(loaded, err)
}

func (q Question) validate() error {
	smallest, largest := 1, MaxSize
	if q.Protocol == "udp" {
		smallest, largest = MinDatagram, MaxDatagram
	}
	switch {
	case q.Protocol != "tcp" && (q.Protocol != "udp" || q.Kind != Stream):
		return fmt.Errorf("no %s of %s", q.Kind, q.Protocol)
	case q.Kind != Stream && q.Kind != RR && q.Kind != CRR:
		return fmt.Errorf("no such measurement: %s", q.Kind)
	case q.Size < smallest || q.Size > largest:
		return fmt.Errorf("size %d: want %d to %d", q.Size, smallest, largest)
	case q.Streams < 1 || q.Time <= 0:
		return errors.New("want a stream and a time at least")
	}
	return nil
}

func (q Question) load(ctx context.Context, r *Report) error {
	switch {
	case q.Kind == RR:
		return q.answers(ctx, r)
	case q.Kind == CRR:
		return q.connections(ctx, r)
	case q.Protocol == "udp":
		return q.datagrams(ctx, r)
	}
	return q.bytes(ctx, r)
}

// each runs a function for each stream, and gives the first error.
func (q Question) each(do func(stream int) error) error {
	var all errgroup.Group
	for i := range q.Streams {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

// dial opens a connection that ends with the load.
func (q Question) dial(ctx context.Context, why purpose) (*net.TCPConn, error) {
	to, err := q.target()
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialWithin}
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(q.Idle + q.Time + patience))
	if err == nil {
		_, err = conn.Write([]byte{byte(why)})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn.(*net.TCPConn), nil //nolint:forcetypeassert // tcp gives no other
}

func (q Question) target() (string, error) {
	address, err := netip.ParseAddr(q.Host)
	return netip.AddrPortFrom(address, Port).String(), err
}

// nodes reads the CPU times of the own node and the server's.
type nodes struct {
	conn  net.Conn
	reads *bufio.Reader
}

func (q Question) nodes(ctx context.Context) (*nodes, error) {
	conn, err := q.dial(ctx, forTimes)
	if err != nil {
		return nil, err
	}
	return &nodes{conn, bufio.NewReader(conn)}, nil
}

func (n *nodes) read() (of [2]Times, err error) {
	if of[0], err = ReadTimes(); err != nil {
		return of, err
	}
	if _, err := n.conn.Write([]byte{0}); err != nil {
		return of, fmt.Errorf("asking the server for its CPU times: %w", err)
	}
	line, err := n.reads.ReadBytes('\n')
	if err != nil {
		return of, fmt.Errorf("asking the server for its CPU times: %w", err)
	}
	return of, json.Unmarshal(line, &of[1])
}
