//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// Probes are connections that carry a packet at each interval and count them.
const (
	probePort = 9000
	interval  = 50 * time.Millisecond
)

// tap notes when packets arrive.
type tap struct {
	mu sync.Mutex
	at []time.Time
}

func (a *tap) receive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, time.Now())
}

// since counts what came after a moment, and says when the last of it did.
func (a *tap) since(moment time.Time) (n int, last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last = moment
	for _, at := range a.at {
		if at.After(moment) {
			n, last = n+1, at
		}
	}
	return n, last
}

// within runs f on a thread in a namespace; sockets that it opens are there.
func within(t testing.TB, ns string, f func() error) {
	t.Helper()
	ok(t, netdevtest.Inside("/run/netns/"+ns, f))
}

// listen answers probes in a namespace until the test ends, and taps them by network.
func listen(t *testing.T, ns string) map[string]*tap {
	t.Helper()
	taps := map[string]*tap{"udp": {}, "tcp": {}}
	var tcp net.Listener
	within(t, ns, func() (err error) {
		tcp, err = net.Listen("tcp4", fmt.Sprintf(":%d", probePort))
		return err
	})
	t.Cleanup(func() { _ = tcp.Close() })
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			closeAfter(t, c)
			go func() { _, _ = io.Copy(c, hearing{c, taps["tcp"]}) }()
		}
	}()
	udp := bind(t, ns, probePort)
	go func() {
		packet := make([]byte, 64)
		for {
			n, from, err := udp.ReadFrom(packet)
			if err != nil {
				return
			}
			taps["udp"].receive()
			_, _ = udp.WriteTo(packet[:n], from)
		}
	}()
	return taps
}

func bind(t *testing.T, ns string, port int) (udp net.PacketConn) {
	t.Helper()
	within(t, ns, func() (err error) {
		udp, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
		return err
	})
	t.Cleanup(func() { _ = udp.Close() })
	return udp
}

func closeAfter(t *testing.T, c io.Closer) {
	context.AfterFunc(t.Context(), func() { _ = c.Close() })
}

// hearing taps what is read.
type hearing struct {
	io.Reader
	tap *tap
}

func (h hearing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.tap.receive()
	}
	return n, err
}

func dial(t *testing.T, ns, network, address string, port int) (c net.Conn) {
	t.Helper()
	within(t, ns, func() (err error) {
		c, err = net.DialTimeout(network, fmt.Sprintf("%s:%d", address, port), patience)
		return err
	})
	closeAfter(t, c)
	return c
}

// connects says whether who listens at an address accepts.
func connects(t *testing.T, ns, address string) (accepted bool) {
	t.Helper()
	within(t, ns, func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", address, probePort), 3*time.Second)
		if accepted = err == nil; accepted {
			_ = c.Close()
		}
		return nil
	})
	return accepted
}

// speak sends probes to who listens until the test ends, whatever becomes of them.
func speak(t *testing.T, ns, network, address string) {
	t.Helper()
	c := dial(t, ns, network, address, probePort)
	go func() { _, _ = io.Copy(io.Discard, c) }()
	go every(t.Context(), func() { _, _ = c.Write([]byte("probe")) })
}

func every(ctx context.Context, send func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			send()
		}
	}
}
