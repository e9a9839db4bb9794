package ovsdb

import (
	"encoding/json"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestALargeMessageIsNotKept: the content of the database comes as one message,
// whose text nobody needs when it has been read.
func TestALargeMessageIsNotKept(t *testing.T) {
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
