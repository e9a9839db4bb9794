package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOpenPorts_OfEachForm(t *testing.T) {
	for value, want := range map[string][]OpenPort{
		"": nil,
		"[{protocol: tcp, port: 80}, {protocol: icmp}, {protocol: tcp, port: 80}]": {{"tcp", 80}, {"icmp", 0}},
		"- protocol: sctp\n  port: 9": {{"sctp", 9}},
	} {
		got, err := ParseOpenPorts(value)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", value, err, diff)
		}
	}
	for value, want := range map[string]string{
		"[{protocol: http, port: 80}]": `protocol "http" is none of`, "[{protocol: icmp, port: 1}]": "protocol icmp has no port",
		"[{protocol: udp}]": "port 0 of protocol udp", "[{protocol: tcp, port: 80, name: x}]": `unknown field "name"`, "tcp": OpenPortsKey,
	} {
		if ports, err := ParseOpenPorts(value); err == nil || ports != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want an error with %q", value, ports, err, want)
		}
	}
}

// TestParseOpenPorts_AreBounded: 100 ports are a list, of which repeated ones do not count. One more, or a longer text, opens none.
func TestParseOpenPorts_AreBounded(t *testing.T) {
	list := func(n int) string {
		var elements []string
		for i := range n {
			elements = append(elements, fmt.Sprintf("{protocol: tcp, port: %d}", 1+i), "{protocol: tcp, port: 1}")
		}
		return "[" + strings.Join(elements, ", ") + "]"
	}
	if ports, err := ParseOpenPorts(list(100)); err != nil || len(ports) != 100 {
		t.Errorf("100 ports: %d, %v", len(ports), err)
	}
	for value, want := range map[string]string{
		list(101): "it has more than 100 ports", "[]" + strings.Repeat(" ", 16<<10): "it has 16386 bytes, and may have 16384",
	} {
		if ports, err := ParseOpenPorts(value); err == nil || ports != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d ports, %v, want an error with %q", len(ports), err, want)
		}
	}
}
