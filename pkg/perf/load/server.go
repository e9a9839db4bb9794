package load

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
)

// purpose is the first byte of a connection.
type purpose byte

const (
	forStream   purpose = 's' // bytes until the client ends them; answer: their number
	forAnswers  purpose = 'r' // a size, then requests of this size, each answered by the same
	forOne      purpose = 'c' // a size and one request; the server closes
	forTimes    purpose = 't' // a byte each time that Times are asked for
	forReceived purpose = 'u' // numbers of datagrams, each answered by two: datagrams and bytes
)

// hello is the length of a datagram that has a number only. The server sends it back.
const hello = 8

// Serve answers at an address of the pod until the context ends.
func Serve(ctx context.Context, address netip.Addr) error {
	at := netip.AddrPortFrom(address, Port).String()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	packets, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", at)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	_ = packets.(*net.UDPConn).SetReadBuffer(bufferSize) //nolint:forcetypeassert // UDP; a small buffer loses more, which the client sees
	s := &server{sums: map[uint64]*sum{}}
	failed := make(chan error, 2)
	go func() { failed <- s.accept(listener) }()
	go func() { failed <- s.count(packets) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, listener.Close(), packets.Close())
}

const bufferSize = 4 << 20

// sum is what came of one number.
type sum struct{ datagrams, bytes uint64 }

type server struct {
	mu   sync.Mutex
	sums map[uint64]*sum
}

func (s *server) accept(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close() //nolint:errcheck // the client sees what went wrong
			_ = s.serve(conn)
		}()
	}
}

func (s *server) serve(conn net.Conn) error {
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return err
	}
	switch purpose(first[0]) {
	case forStream:
		n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{conn}, make([]byte, MaxSize))
		if err != nil {
			return err
		}
		_, err = conn.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		return err
	case forAnswers:
		return answer(conn, true)
	case forOne:
		return answer(conn, false)
	case forTimes:
		return sendTimes(conn)
	case forReceived:
		return s.sendSums(conn)
	}
	return nil
}

// answer sends requests back.
func answer(conn net.Conn, more bool) error {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	request := make([]byte, min(binary.BigEndian.Uint32(size[:]), MaxSize))
	for {
		if _, err := io.ReadFull(conn, request); err != nil {
			return err
		}
		if _, err := conn.Write(request); err != nil || !more {
			return err
		}
	}
}

func sendTimes(conn net.Conn) error {
	var asked [1]byte
	for encoder := json.NewEncoder(conn); ; {
		if _, err := io.ReadFull(conn, asked[:]); err != nil {
			return err
		}
		times, err := ReadTimes()
		if err != nil {
			return err
		}
		if err := encoder.Encode(times); err != nil {
			return err
		}
	}
}

func (s *server) sendSums(conn net.Conn) error {
	var number [8]byte
	for {
		if _, err := io.ReadFull(conn, number[:]); err != nil {
			return err
		}
		got := s.take(binary.BigEndian.Uint64(number[:]))
		if _, err := conn.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, got.datagrams), got.bytes)); err != nil {
			return err
		}
	}
}

// take gives a sum away.
func (s *server) take(number uint64) sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.sums[number]
	if got == nil {
		return sum{}
	}
	delete(s.sums, number)
	return *got
}

// mostSums bounds the numbers: a client that was killed takes none.
const mostSums = 1000

func (s *server) count(packets net.PacketConn) error {
	for datagram := make([]byte, 1<<16); ; {
		n, from, err := packets.ReadFrom(datagram)
		if err != nil {
			return err
		}
		if n < hello {
			continue
		}
		s.add(binary.BigEndian.Uint64(datagram), n)
		if n == hello {
			_, _ = packets.WriteTo(datagram[:n], from) // the client waits for it, and says that it did not come
		}
	}
}

func (s *server) add(number uint64, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.sums[number]
	if got == nil {
		if bytes != hello { // of a sum that was given away
			return
		}
		if len(s.sums) >= mostSums {
			clear(s.sums)
		}
		s.sums[number] = &sum{}
		return
	}
	if bytes > hello {
		got.datagrams++
		got.bytes += uint64(bytes)
	}
}
