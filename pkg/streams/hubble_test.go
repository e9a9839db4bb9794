package streams

import (
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// TestWriteHubble_HasTheNamesOfHubble: a stream to a service, an answer that leaves the cluster, and a dropped one.
func TestWriteHubble_HasTheNamesOfHubble(t *testing.T) {
	hardware := flowapi.Placed{Place: offload.Hardware}
	for _, c := range []struct {
		of   Stream
		want string
	}{
		{
			Stream{Node: "w1", Ends: Ends{From: "pod/shop/web", To: "svc/shop/db", Via: "pod/shop/db-0", Protocol: "tcp", Port: "5432"}, Placed: hardware, Packets: 7, Decision: Decision{DecidedBy: []string{"NetworkPolicy/shop/db"}}},
			`{"flow":{"source":{"namespace":"shop","pod_name":"web"},"destination":{"namespace":"shop","pod_name":"db-0"},"destination_service":{"name":"db","namespace":"shop"},` +
				`"time":"2026-11-25T16:00:00Z","verdict":"FORWARDED","l4":{"TCP":{"destination_port":5432}},"Type":"L3_L4","node_name":"w1",` +
				`"extensions":{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"{\"node\":\"w1\",\"from\":\"pod/shop/web\",\"to\":\"svc/shop/db\",\"via\":\"pod/shop/db-0\",\"protocol\":\"tcp\",\"port\":\"5432\",` +
				`\"place\":\"hardware\",\"packets\":7,\"bytes\":0,\"decidedBy\":[\"NetworkPolicy/shop/db\"],\"flows\":null}"}},"node_name":"w1","time":"2026-11-25T16:00:00Z"}`,
		},
		{
			Stream{Node: "w1", Ends: Ends{From: "node/w2", To: "2001:db8::7", Protocol: "icmp6"}, Direction: flowapi.Reply, Placed: hardware},
			`{"flow":{"IP":{"destination":"2001:db8::7","ipVersion":"IPv6"},"source":{"labels":["reserved:host"]},"destination":{"labels":["reserved:world"]},` +
				`"time":"2026-11-25T16:00:00Z","verdict":"FORWARDED","l4":{"ICMPv6":{}},"Type":"L3_L4","node_name":"w1","is_reply":true,"extensions":`,
		},
		{
			Stream{Node: "w1", Ends: Ends{To: "pod/shop/web", Port: "8080/0xff80", Protocol: "udp"}, Drops: true, Direction: flowapi.Original, Placed: hardware},
			`{"flow":{"destination":{"namespace":"shop","pod_name":"web"},"time":"2026-11-25T16:00:00Z","verdict":"DROPPED","l4":{"UDP":{}},"Type":"L3_L4","node_name":"w1","is_reply":false,"extensions":`,
		},
	} {
		var out strings.Builder
		if err := WriteHubble(&out, []Stream{c.of}, time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC)); err != nil || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("%v\n got %s\nwant %s", err, out.String(), c.want)
		}
	}
}
