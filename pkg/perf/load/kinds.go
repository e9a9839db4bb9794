package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// bytes sends over connections at the same time. What the kernel still has when the time is up is sent and counted.
func (q Question) bytes(ctx context.Context, r *Report) error {
	received := make([]uint64, q.Streams)
	end := time.Now().Add(q.Time)
	err := q.each(func(i int) error {
		conn, err := q.dial(ctx, forStream)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // the server has said what it got
		for text := make([]byte, q.Size); time.Now().Before(end); {
			if _, err := conn.Write(text); err != nil {
				return err
			}
		}
		if err := conn.CloseWrite(); err != nil {
			return err
		}
		var n [8]byte
		_, err = io.ReadFull(conn, n[:])
		received[i] = binary.BigEndian.Uint64(n[:])
		return err
	})
	r.Seconds = time.Since(r.Started).Seconds()
	for _, n := range received {
		r.Bytes += n
	}
	return err
}

// lastDatagrams is the time for datagrams that are under way.
const lastDatagrams = 300 * time.Millisecond

// datagrams sends as fast as the socket takes them, and asks the server how many it got.
func (q Question) datagrams(ctx context.Context, r *Report) error {
	var one sync.Mutex
	end := time.Now().Add(q.Time)
	err := q.each(func(int) error {
		number := rand.Uint64()
		sent, err := q.flood(ctx, number, end)
		if err != nil {
			return err
		}
		time.Sleep(lastDatagrams) //nolint:forbidigo // nothing says that the last datagram has come
		got, err := q.received(ctx, number)
		one.Lock()
		defer one.Unlock()
		r.Datagrams += got.datagrams
		r.Bytes += got.bytes
		r.Lost += sent - min(sent, got.datagrams)
		return err
	})
	r.Seconds = end.Sub(r.Started).Seconds()
	if err == nil && r.Datagrams == 0 {
		return errors.New("no datagram has arrived")
	}
	return err
}

// flood sends datagrams after the server has answered one: without an answer, conntrack has no established connection.
func (q Question) flood(ctx context.Context, number uint64, end time.Time) (sent uint64, err error) {
	to, err := q.target()
	if err != nil {
		return 0, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", to)
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // all was sent
	datagram := make([]byte, q.Size)
	binary.BigEndian.PutUint64(datagram, number)
	if err := greet(conn, datagram[:hello]); err != nil {
		return 0, err
	}
	for time.Now().Before(end) {
		if _, err := conn.Write(datagram); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// greet sends a number until it comes back.
func greet(conn net.Conn, number []byte) error {
	back := make([]byte, hello)
	var err error
	for range int(dialWithin / time.Second) {
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write(number); err != nil {
			return err
		}
		if _, err = conn.Read(back); err == nil {
			return conn.SetDeadline(time.Time{})
		}
	}
	return fmt.Errorf("the first datagram was not answered: %w", err)
}

func (q Question) received(ctx context.Context, number uint64) (sum, error) {
	conn, err := q.dial(ctx, forReceived)
	if err != nil {
		return sum{}, err
	}
	defer conn.Close() //nolint:errcheck // it was only asked
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, number)); err != nil {
		return sum{}, err
	}
	var got [16]byte
	_, err = io.ReadFull(conn, got[:])
	return sum{binary.BigEndian.Uint64(got[:8]), binary.BigEndian.Uint64(got[8:])}, err
}

// answers sends one request after the other over one connection.
func (q Question) answers(ctx context.Context, r *Report) error {
	conn, err := q.dial(ctx, forAnswers)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answers are there
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, uint32(q.Size))); err != nil {
		return err
	}
	var took []time.Duration
	request := make([]byte, q.Size)
	for begin := time.Now(); time.Since(r.Started) < q.Time; {
		if _, err = conn.Write(request); err == nil {
			_, err = io.ReadFull(conn, request)
		}
		if err != nil {
			r.Failed++
			break
		}
		now := time.Now()
		took, begin = append(took, now.Sub(begin)), now
	}
	r.Requests = len(took)
	r.latencies(took)
	return err
}

// connections opens one after the other in each stream. One that fails does not end the load.
func (q Question) connections(ctx context.Context, r *Report) error {
	var one sync.Once
	var sums sync.Mutex
	var first error
	var took []time.Duration
	_ = q.each(func(int) error { // none fails
		var mine []time.Duration
		failed := 0
		for time.Since(r.Started) < q.Time && ctx.Err() == nil {
			begin := time.Now()
			if err := q.request(ctx); err != nil {
				failed++
				one.Do(func() { first = err })
				continue
			}
			mine = append(mine, time.Since(begin))
		}
		sums.Lock()
		defer sums.Unlock()
		took = append(took, mine...)
		r.Failed += failed
		return nil
	})
	r.Requests = len(took)
	r.latencies(took)
	return first
}

// request opens a connection and asks once. The server closes first, so that the client's port is free at once.
func (q Question) request(ctx context.Context) error {
	conn, err := q.dial(ctx, forOne)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer is there
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(q.Size)), make([]byte, q.Size)...)); err != nil {
		return err
	}
	got, err := io.Copy(io.Discard, conn)
	if err == nil && got != int64(q.Size) {
		err = fmt.Errorf("%d bytes came back of %d", got, q.Size)
	}
	return err
}
