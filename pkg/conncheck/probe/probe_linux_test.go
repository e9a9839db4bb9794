package probe

import (
	"net"
	"testing"
	"time"
)

// free is a port without a server.
func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestAsk_ServerSaysItsName over TCP and UDP, small and large; where there is no server, the question is refused.
func TestAsk_ServerSaysItsName(t *testing.T) {
	port, closed := free(t), free(t)
	go func() {
		if err := Serve(t.Context(), "web", port); err != nil {
			t.Error(err)
		}
	}()
	q := Question{Protocol: "tcp", Host: "127.0.0.1", Family: 4, Port: port, Timeout: 5 * time.Second}
	for end := time.Now().Add(5 * time.Second); Ask(t.Context(), q, 1500).Outcome != Reached; {
		if time.Now().After(end) {
			t.Fatal("the server does not answer")
		}
	}
	for _, c := range []struct {
		q    Question
		want Outcome
	}{
		{Question{Protocol: "tcp", Port: port, Size: 1 << 20, Times: 3}, Reached},
		{Question{Protocol: "tcp", Port: port, Size: 1000, Over: 200 * time.Millisecond, Times: 3}, Reached},
		{Question{Protocol: "udp", Port: port, Size: 3000, Times: 3}, Reached},
		{Question{Protocol: "udp", Port: port, OfMTU: true, DontFragment: true, Times: 3}, Reached},
		{Question{Protocol: "udp", Host: "127.0.0.2", Port: port, Times: 3}, Reached}, // the answer comes from the address that was asked
		{Question{Protocol: "udp", Host: "::1", Family: 6, Port: port, Times: 3}, Reached},
		{Question{Protocol: "tcp", Port: closed}, Refused},
		{Question{Protocol: "udp", Port: closed}, Refused},
		{Question{Protocol: "tcp", Host: "no-such-name.invalid", Port: port}, NoName},
	} {
		c.q.Family, c.q.Timeout = max(c.q.Family, 4), 5*time.Second
		if c.q.Host == "" {
			c.q.Host = "127.0.0.1"
		}
		got := Ask(t.Context(), c.q, 1500)
		if got.Outcome != c.want || c.want == Reached && got.Names["web"] != 3 {
			t.Errorf("%+v: %+v, want %s", c.q, got, c.want)
		}
	}
}

// TestAsk_SendsLostDatagramsAgain: one that had no answer says nothing of the network.
func TestAsk_SendsLostDatagramsAgain(t *testing.T) {
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	go func() {
		for i := range 2 {
			text := make([]byte, 100)
			if _, from, err := packets.ReadFrom(text); err == nil && i == 1 {
				packets.WriteTo([]byte("web\n"), from)
			}
		}
	}()
	q := Question{Protocol: "udp", Host: "127.0.0.1", Family: 4, Port: packets.LocalAddr().(*net.UDPAddr).Port, Timeout: 10 * time.Second}
	if got := Ask(t.Context(), q, 1500); got.Names["web"] != 1 {
		t.Errorf("%+v", got)
	}
	q.Timeout = 2 * time.Second
	if got := Ask(t.Context(), q, 1500); got.Outcome != Timeout {
		t.Errorf("of a server that never answers: %+v", got)
	}
}

// TestQuestion_PayloadFillsOnePacket of the MTU.
func TestQuestion_PayloadFillsOnePacket(t *testing.T) {
	for _, c := range []struct {
		q    Question
		want int
	}{
		{Question{Protocol: "udp", Family: 4, OfMTU: true}, 1372},
		{Question{Protocol: "icmp", Family: 6, OfMTU: true, Size: 1}, 1353},
		{Question{Protocol: "udp", Family: 6, Size: 3000}, 3000},
		{Question{Protocol: "udp", Family: 4}, 1},
	} {
		if got := c.q.payload(1400); got != c.want {
			t.Errorf("%+v: %d, want %d", c.q, got, c.want)
		}
	}
}
