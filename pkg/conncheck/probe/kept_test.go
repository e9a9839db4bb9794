package probe

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestRecord_CountsLossAndTheLongestSilence: questions before the first answer count for nothing, an answer that comes twice
// once, one of TCP always, and a silence that goes on counts.
func TestRecord_CountsLossAndTheLongestSilence(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	udp, tcp := &record{}, &record{}
	for i := range 3 {
		udp.sends(at(-1 + 0.1*float64(i)))
		tcp.sends(at(-1))
	}
	if s := udp.state(begin); s.Sent != 3 || s.Answered != 0 || !s.Began.IsZero() || s.Silent || s.Silence != 0 {
		t.Errorf("before the first answer: %+v", s)
	}
	for _, r := range []*record{udp, tcp} {
		protocol := map[*record]string{udp: "udp", tcp: "tcp"}[r]
		r.answered(3, protocol, at(0)) // number 4 follows
		r.sends(at(0.1))
		r.answered(4, protocol, at(0.2))
		r.sends(at(0.2)) // 5 has no answer for a while
		r.sends(at(0.3)) // 6 neither
		r.sends(at(7))
		r.answered(7, protocol, at(7.2))
	}
	udp.answered(7, "udp", at(7.3))
	udp.answered(5, "udp", at(7.3)) // late: it was lost
	tcp.answered(5, "tcp", at(7.3))
	tcp.answered(6, "tcp", at(7.3))
	s := udp.state(at(7.5))
	if s.Sent != 5 || s.Answered != 3 || s.Lost != 2 || s.Silence != 7 || !s.SilentFrom.Equal(at(0.2)) || s.Silent || s.Seconds != 7.5 {
		t.Errorf("UDP: %+v", s)
	}
	if s := tcp.state(at(7.5)); s.Answered != 5 || s.Lost != 0 || s.Silence != 7 {
		t.Errorf("TCP: %+v", s)
	}
	if s := tcp.state(at(20)); !s.Silent || s.Silence != 12.7 || !s.SilentFrom.Equal(at(7.3)) {
		t.Errorf("a silence that goes on: %+v", s)
	}
}

// TestRecord_BreaksOnceBegun: a connection that never had an answer is tried again. The reason has no address.
func TestRecord_BreaksOnceBegun(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for want, err := range map[string]error{"connection reset by peer": reset, "closed by the other side": io.EOF, "odd": errors.New("odd")} {
		r := &record{}
		if r.broke(err, time.Unix(1, 0)) {
			t.Errorf("%v broke what had not begun", err)
		}
		r.sends(time.Unix(10, 0))
		r.answered(1, "tcp", time.Unix(10, 0))
		if !r.broke(err, time.Unix(13, 0)) {
			t.Errorf("%v broke nothing", err)
		}
		if s := r.state(time.Unix(60, 0)); s.Broken != want || s.Seconds != 3 || s.Silence != 3 || s.Silent {
			t.Errorf("%+v, want %s", s, want)
		}
	}
}

// TestConnection_IsReadAsWritten, and nothing else is.
func TestConnection_IsReadAsWritten(t *testing.T) {
	for text, good := range map[string]bool{
		"tcp/192.0.2.1:80": true, "udp/[2001:db8::1]:8080": true, "sctp/192.0.2.1:80": false, "tcp/web:80": false, "192.0.2.1:80": false, "": false,
	} {
		var c Connection
		if err := c.UnmarshalText([]byte(text)); (err == nil) != good || good && c.String() != text {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
}
