package load

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// server serves on an address of its own until the test ends.
func serve(t *testing.T, address string) {
	t.Helper()
	go func() {
		if err := Serve(t.Context(), netip.MustParseAddr(address)); err != nil {
			t.Error(err)
		}
	}()
	for end := time.Now().Add(5 * time.Second); ; {
		conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), Port).String())
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestRun_CountsWhatArrives for each kind, and where there is no server it says so and counts nothing.
func TestRun_CountsWhatArrives(t *testing.T) {
	serve(t, "127.0.7.1")
	for _, q := range []Question{
		{Kind: Stream, Protocol: "tcp", Streams: 2},
		{Kind: Stream, Protocol: "udp", Streams: 2, Size: 500},
		{Kind: RR, Protocol: "tcp", Streams: 1, Size: 3000},
		{Kind: CRR, Protocol: "tcp", Streams: 3},
	} {
		q.Host, q.Time, q.Idle = "127.0.7.1", 300*time.Millisecond, 50*time.Millisecond
		r := Run(context.Background(), q)
		if r.Error != "" || r.Failed != 0 || r.Seconds < 0.3 || r.Started.IsZero() || r.Client.Boot == "" || r.Client.Count < 1 || r.Client.Busy <= 0 || r.Client.Boot != r.Server.Boot {
			t.Errorf("%s %s: %+v", q.Kind, q.Protocol, r)
		}
		answered := r.Requests > 0 && r.P50 > 0 && r.P99 >= r.P50
		if moved := r.Bytes > 0; moved != (q.Kind == Stream) || answered == moved {
			t.Errorf("%s %s: %+v", q.Kind, q.Protocol, r)
		}
		if q.Protocol == "udp" && r.Bytes != r.Datagrams*500 {
			t.Errorf("%+v", r)
		}
		q.Host = "127.0.7.2"
		if r := Run(context.Background(), q); !strings.Contains(r.Error, "refused") || r.Bytes+r.Datagrams > 0 || r.Requests > 0 {
			t.Errorf("%s %s without a server: %+v", q.Kind, q.Protocol, r)
		}
	}
}

// TestRun_RefusesWhatItDoesNotMeasure.
func TestRun_RefusesWhatItDoesNotMeasure(t *testing.T) {
	good := Question{Kind: Stream, Protocol: "tcp", Streams: 1, Time: time.Second}
	for want, change := range map[string]func(*Question){
		"no rr of udp":      func(q *Question) { q.Kind, q.Protocol = RR, "udp" },
		"no stream of icmp": func(q *Question) { q.Protocol = "icmp" },
		"no such":           func(q *Question) { q.Kind = "ring" },
		"want 1 to":         func(q *Question) { q.Size = MaxSize + 1 },
		"want 9 to":         func(q *Question) { q.Protocol, q.Size = "udp", MaxDatagram+1 },
		"a stream":          func(q *Question) { q.Streams = 0 },
		"a time":            func(q *Question) { q.Time = 0 },
	} {
		q := good
		change(&q)
		if r := Run(t.Context(), q); !strings.Contains(r.Error, want) {
			t.Errorf("want %q: %q", want, r.Error)
		}
	}
}

func TestPercentile_IsTheNearestRank(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		of      []time.Duration
		p, want int
	}{{nil, 50, 0}, {hundred[:1], 99, 1}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred[:3], 50, 2}, {hundred[:3], 99, 3}} {
		if got := Percentile(c.of, c.p); got != time.Duration(c.want) {
			t.Errorf("%d of 100, %d values: %d, want %d", c.p, len(c.of), got, c.want)
		}
	}
}

// TestCores_AreOfTheLoadAlone: waiting for disks is not use, and interrupts before the load are not the load's.
func TestCores_AreOfTheLoadAlone(t *testing.T) {
	at := time.Unix(1000, 0)
	var times [3]Times
	for i, text := range []string{
		"cpu  100 0 100 5000 70 0 10 0 0 0\ncpu0 1 2 3\n",
		"cpu  120 10 120 5100 99 5 15 0 0 0\n",
		"cpu  320 10 420 5900 999 10 305 40 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 1\n",
	} {
		var err error
		if times[i], err = parseTimes(text); err != nil {
			t.Fatal(err)
		}
		times[i].At, times[i].Boot = at.Add(time.Duration(i)*time.Second), "b"
	}
	want := CPU{Boot: "b", Count: 2, Idle: 0.6, Busy: 7.95, Softirq: 2.85}
	if got := cores(times[0], times[1], times[2]); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, wrong := range []string{"", "intr 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a 2 3 4 5 6 7"} {
		if _, err := parseTimes(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
