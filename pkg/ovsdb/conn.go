package ovsdb

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// writeTimeout bounds the sending of one message.
const writeTimeout = 20 * time.Second

// largeMessage is the size of a message, such as a whole database, from which on its
// memory is not kept for the next one.
const largeMessage = 1 << 20

// conn is one JSON-RPC connection to a database server (RFC 7047, section 4).
// Messages are handled in the order in which they come: when a reply is
// delivered, every update that the server sent before it has been applied.
type conn struct {
	stream  net.Conn
	updates func(params json.RawMessage) error

	mu      sync.Mutex
	encoder *json.Encoder
	next    uint64
	pending map[uint64]chan message

	ended chan struct{}
	err   error // why it ended; read after ended is closed
}

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

type request struct {
	ID     uint64 `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params"`
}

type response struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  any             `json:"error"`
}

// dial connects to "unix:PATH", "tcp:HOST:PORT" or "ssl:HOST:PORT".
func dial(ctx context.Context, endpoint string, config func() (*tls.Config, error)) (net.Conn, error) {
	kind, address, _ := strings.Cut(endpoint, ":")
	var dialer net.Dialer
	switch kind {
	case "unix", "tcp":
		return dialer.DialContext(ctx, kind, address)
	case "ssl":
		if config == nil {
			return nil, errors.New("no certificates are configured")
		}
		current, err := config()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{NetDialer: &dialer, Config: current}).DialContext(ctx, "tcp", address)
	}
	return nil, errors.New("want unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")
}

// newConn takes over stream. The caller runs read.
func newConn(stream net.Conn, updates func(json.RawMessage) error) *conn {
	return &conn{
		stream: stream, updates: updates,
		encoder: json.NewEncoder(stream),
		pending: map[uint64]chan message{},
		ended:   make(chan struct{}),
	}
}

// impatient is a stream that fails after the time idle without a message.
type impatient struct {
	net.Conn
	idle time.Duration
}

func (s impatient) Read(p []byte) (int, error) {
	if err := s.SetReadDeadline(time.Now().Add(s.idle)); err != nil {
		return 0, err
	}
	return s.Conn.Read(p)
}

// read handles messages until the connection ends, which it also does when an
// update cannot be applied or nothing comes for idle.
func (c *conn) read(idle time.Duration) {
	reader := bufio.NewReaderSize(impatient{c.stream, idle}, 1<<16)
	decoder := json.NewDecoder(reader)
	var err error
	for err == nil {
		var m message
		if err = decoder.Decode(&m); err == nil {
			err = c.handle(m)
		}
		if len(m.Result)+len(m.Params) > largeMessage { // whose text the decoder keeps
			decoder = json.NewDecoder(io.MultiReader(decoder.Buffered(), reader))
		}
	}
	c.stream.Close()
	c.err = err
	close(c.ended)
}

func (c *conn) handle(m message) error {
	switch {
	case m.Method == "echo":
		return c.send(response{ID: m.ID, Result: m.Params})
	case m.Method == "update3":
		return c.updates(m.Params)
	case m.Method != "":
		return fmt.Errorf("unexpected message %q", m.Method)
	}
	var id uint64
	if err := json.Unmarshal(m.ID, &id); err != nil {
		return fmt.Errorf("reply with id %s: %w", m.ID, err)
	}
	c.mu.Lock()
	waiter := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if waiter != nil {
		waiter <- m
	}
	return nil
}

func (c *conn) send(m any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(m)
}

// write fails if the peer does not read in time. The caller holds the lock, and the reader needs the lock to answer a
// probe.
func (c *conn) write(m any) error {
	if err := c.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	err := c.encoder.Encode(m)
	if err != nil {
		c.stream.Close()
	}
	return err
}

// call sends a request and decodes its result.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	waiter := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.pending[id] = waiter
	err := c.write(request{ID: id, Method: method, Params: params})
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w: %w", method, ErrDisconnected, err)
	}
	select {
	case m := <-waiter:
		if len(m.Error) > 0 && string(m.Error) != "null" {
			return fmt.Errorf("%s: the server answers %s", method, m.Error)
		}
		return json.Unmarshal(m.Result, result)
	case <-c.ended:
		return fmt.Errorf("%s: %w: %w", method, ErrDisconnected, c.err)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// probe keeps the peer talking, so that a silent one is noticed by read.
func (c *conn) probe(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
			var echo []any
			_ = c.call(ctx, "echo", []any{}, &echo) // read returns the error
		}
	}
}
