package unixctl

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// BenchmarkReply_DumpOfFlows reads a dump of 100 MB. The peak is that of one line, not of the dump.
func BenchmarkReply_DumpOfFlows(b *testing.B) {
	const flow = `recirc_id(0x1),in_port(5),ct_state(+est-rel+rpl-inv+trk),eth(src=0a:58:0a:f4:01:06,dst=0a:58:0a:f4:01:07),eth_type(0x0800),ipv4(src=10.244.1.6,dst=10.244.1.7,proto=6,frag=no), packets:1000, bytes:100000, used:0.1s, actions:ct(commit,zone=7),7\n`
	repeated := func() io.Reader {
		all := []io.Reader{strings.NewReader(`{"id":0,"result":"`)}
		for range 400 {
			all = append(all, strings.NewReader(strings.Repeat(flow, 1000)))
		}
		return io.MultiReader(append(all, strings.NewReader(`","error":null}`))...)
	}
	for b.Loop() {
		lines := 0
		r := reply{in: bufio.NewReaderSize(repeated(), 64<<10), line: func(string) error { lines++; return nil }}
		if err := r.read(); err != nil || lines != 400_000 {
			b.Fatal(lines, err)
		}
	}
}
