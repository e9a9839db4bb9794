package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// keeping runs connections to a server, which the test ends with stop, and gives what asks for their states.
func keeping(t *testing.T, connections map[string]Connection) func() map[string]Lasted {
	t.Helper()
	at := fmt.Sprintf("@probe-test-%d", time.Now().UnixNano())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Keep(ctx, at, connections) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	return func() map[string]Lasted {
		states, err := Kept(t.Context(), at)
		for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); {
			states, err = Kept(t.Context(), at)
		}
		if err != nil {
			t.Fatal(err)
		}
		return states
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(askEvery) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestKeep_ConnectionsLastWithTheirServer: TCP and UDP are answered again and again, in both families; when the server ends,
// TCP breaks and UDP is silent, loses datagrams, and is answered again by the next server. Where no server is, nothing begins.
func TestKeep_ConnectionsLastWithTheirServer(t *testing.T) {
	port, closed := free(t), free(t)
	serve := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, "web", port) }()
		return func() { cancel(); <-ended }
	}
	to := func(address string, port int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port))
	}
	states := keeping(t, map[string]Connection{
		"tcp4": {"tcp", to("127.0.0.1", port)}, "tcp6": {"tcp", to("::1", port)}, "udp4": {"udp", to("127.0.0.1", port)}, "udp6": {"udp", to("::1", port)},
		"no-tcp": {"tcp", to("127.0.0.1", closed)}, "no-udp": {"udp", to("127.0.0.1", closed)},
	})
	stop := serve()
	until(t, "three answers of each", func() bool {
		s := states()
		return s["tcp4"].Answered > 3 && s["tcp6"].Answered > 3 && s["udp4"].Answered > 3 && s["udp6"].Answered > 3
	})
	for id, s := range states() {
		never := id == "no-tcp" || id == "no-udp"
		if s.Broken != "" || s.Lost > 0 || s.Silent || s.Began.IsZero() != never || never && s.Answered > 0 {
			t.Errorf("with the server: %s: %+v", id, s)
		}
	}
	if s := states()["no-udp"]; s.Sent == 0 {
		t.Errorf("no datagram was sent: %+v", s)
	}
	stop()
	until(t, "UDP is silent", func() bool { s := states(); return s["udp4"].Silent && s["udp6"].Silent })
	began := states()["udp4"].Began
	defer serve()()
	until(t, "UDP is answered again", func() bool { s := states(); return !s["udp4"].Silent && !s["udp6"].Silent })
	s := states()
	for _, id := range []string{"udp4", "udp6"} {
		if s[id].Lost == 0 || s[id].Silence < 1 || !s[id].SilentFrom.After(began) || s[id].Broken != "" {
			t.Errorf("after the server: %s: %+v", id, s[id])
		}
	}
	for _, id := range []string{"tcp4", "tcp6"} {
		// Serve leaves the connections that it has accepted.
		if s[id].Broken != "" || s[id].Silent {
			t.Errorf("after the listener: %s: %+v", id, s[id])
		}
	}
}

// TestKeep_TCPBreaksWhenItIsEnded, stays broken though the server is there, and says so.
func TestKeep_TCPBreaksWhenItIsEnded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 9)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
			go serve(conn, "web")
		}
	}()
	states := keeping(t, map[string]Connection{"a": {"tcp", l.Addr().(*net.TCPAddr).AddrPort()}})
	until(t, "three answers", func() bool { return states()["a"].Answered > 3 })
	if s := states()["a"]; s.Broken != "" {
		t.Fatalf("%+v", s)
	}
	conn := (<-accepted).(*net.TCPConn)
	if err := errors.Join(conn.SetLinger(0), conn.Close()); err != nil {
		t.Fatal(err)
	}
	until(t, "it is broken", func() bool { return states()["a"].Broken != "" })
	s := states()["a"]
	if s.Broken != "connection reset by peer" && s.Broken != "closed by the other side" || s.BrokenAt.Before(s.Began) {
		t.Errorf("%+v", s)
	}
	time.Sleep(5 * askEvery)
	if later := states()["a"]; later != s || len(accepted) > 0 {
		t.Errorf("%+v became %+v, with %d further connections", s, later, len(accepted))
	}
}
