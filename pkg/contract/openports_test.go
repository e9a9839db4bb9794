package contract

import (
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
