package ovsdb

import (
	"encoding/json"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestConn_LargeMessageIsNotKept: the content of the database comes as one message. Its text is freed after decoding.
func TestConn_LargeMessageIsNotKept(t *testing.T) {
	const size = 16 << 20
	server, client := net.Pipe()
	defer server.Close()
	handled := make(chan int)
	c := newConn(client, func(params json.RawMessage) error {
		handled <- len(params)
		return nil
	})
	go c.read(time.Minute)
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for _, text := range []string{strings.Repeat(" x", size/2), "small", "last"} {
		message := `{"method":"update3","params":["` + text + `"],"id":null}`
		go server.Write([]byte(message))
		if got := <-handled; got < len(text) {
			t.Fatalf("%d bytes of %d came", got, len(text))
		}
	}
	if after := heap(); after > before+size/2 {
		t.Errorf("the heap grew from %d to %d MB", before>>20, after>>20)
	}
}

// TestConn_SlowMessageIsNotIdle: a large database over a slow wire takes longer than
// a server may be silent.
func TestConn_SlowMessageIsNotIdle(t *testing.T) {
	const idle = 1500 * time.Millisecond
	server, client := net.Pipe()
	defer server.Close()
	handled := make(chan struct{})
	c := newConn(client, func(json.RawMessage) error {
		close(handled)
		return nil
	})
	start := time.Now()
	go c.read(idle)
	for _, part := range []string{`{"method":`, `"update3"`, `,"params":`, `["x"]`, `,"id":null}`} {
		if _, err := server.Write([]byte(part)); err != nil {
			t.Fatalf("after %s: %v", time.Since(start), err)
		}
		time.Sleep(idle / 3)
	}
	<-handled
	select {
	case <-c.ended:
	case <-time.After(10 * time.Second):
		t.Error("silence is not noticed")
	}
}
