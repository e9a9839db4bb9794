package probe

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"time"
)

const (
	// Socket is where a pod says what became of its connections: a name without a file.
	Socket = "@ovn-offload-probe"
	// askEvery is the time between two questions, and dialWithin that for a connection to come.
	askEvery   = 100 * time.Millisecond
	dialWithin = 3 * time.Second
	// asLongAsItLasts is the length that has a server send back each question until the client ends.
	asLongAsItLasts = math.MaxUint32
	// number is the size of a question's number, and datagram that of a question by UDP, at whose end the number is: an answer
	// begins with the server's name.
	number, datagram = 8, 128
)

// Keep holds connections until the context ends, and says at a socket what became of them.
func Keep(ctx context.Context, at string, connections map[string]Connection) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", at)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	records := map[string]*record{}
	for id, c := range connections {
		records[id] = &record{}
		go c.keep(ctx, records[id])
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		states := map[string]Lasted{}
		for id, r := range records {
			states[id] = r.state(time.Now())
		}
		_ = json.NewEncoder(conn).Encode(states) // the other end sees it
		_ = conn.Close()
	}
}

// Kept asks at the socket.
func Kept(ctx context.Context, at string) (states map[string]Lasted, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it was read
	err = json.NewDecoder(conn).Decode(&states)
	return states, err
}

// keep asks until the connection breaks. One that never had an answer begins again.
func (c Connection) keep(ctx context.Context, r *record) {
	for ctx.Err() == nil {
		err := c.once(ctx, r)
		if ctx.Err() != nil || r.broke(err, time.Now()) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

func (c Connection) once(ctx context.Context, r *record) error {
	dialer := net.Dialer{Timeout: dialWithin, KeepAlive: -1} // questions keep it alive, and silence does not end it
	conn, err := dialer.DialContext(ctx, c.Protocol, c.To.String())
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it has ended
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	size := datagram
	if c.Protocol == "tcp" {
		size = number
		if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, asLongAsItLasts)); err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	defer close(ended)
	go c.send(conn, r, size, ended)
	return c.receive(conn, r, size)
}

// send sends questions until the other side has ended. What goes wrong there is seen.
func (c Connection) send(conn net.Conn, r *record, size int, ended <-chan struct{}) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	question := make([]byte, size)
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		binary.BigEndian.PutUint64(question[size-number:], r.sends(time.Now()))
		if _, err := conn.Write(question); err != nil && c.Protocol == "tcp" {
			return
		}
	}
}

// receive takes answers. An error of UDP, such as a port that is closed for a time, ends nothing.
func (c Connection) receive(conn net.Conn, r *record, size int) error {
	answer := make([]byte, size)
	for {
		_, err := io.ReadFull(conn, answer)
		switch {
		case err == nil:
			r.answered(binary.BigEndian.Uint64(answer[size-number:]), c.Protocol, time.Now())
		case c.Protocol == "tcp" || errors.Is(err, net.ErrClosed):
			return err
		}
	}
}
