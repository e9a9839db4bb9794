package streams

import (
	"encoding/json"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// The types below are JSON of Hubble's GetFlowsResponse and Flow (github.com/cilium/cilium, api/v1/observer and api/v1/flow), as
// far as a stream has such fields. The stream itself is in the extensions, as text: a message of any type is read only by programs
// that know its type, and those of Hubble know this one.
type hubbleResponse struct {
	Flow     hubbleFlow `json:"flow"`
	NodeName string     `json:"node_name"`
	Time     time.Time  `json:"time"`
}

type hubbleFlow struct {
	hubbleEnds
	Time       time.Time                 `json:"time"`
	Verdict    string                    `json:"verdict"`
	L4         map[string]map[string]int `json:"l4,omitempty"`
	Type       string                    `json:"Type"`
	NodeName   string                    `json:"node_name"`
	IsReply    *bool                     `json:"is_reply,omitempty"`
	Extensions map[string]string         `json:"extensions"`
}

type hubbleEnds struct {
	IP                 *hubbleIP       `json:"IP,omitempty"`
	Source             *hubbleEndpoint `json:"source,omitempty"`
	Destination        *hubbleEndpoint `json:"destination,omitempty"`
	DestinationService *hubbleName     `json:"destination_service,omitempty"`
}

type hubbleIP struct {
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	Version     string `json:"ipVersion,omitempty"`
}

type hubbleEndpoint struct {
	Namespace string   `json:"namespace,omitempty"`
	PodName   string   `json:"pod_name,omitempty"`
	Labels    []string `json:"labels,omitempty"`
}

type hubbleName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// LineFormats are the formats of WriteLines.
func LineFormats() []string { return []string{"jsonl", "hubble"} }

// WriteLines writes streams in one of LineFormats, one a line.
func WriteLines(w io.Writer, format string, of []Stream, taken time.Time) error {
	if format == "hubble" {
		return WriteHubble(w, of, taken)
	}
	return WriteJSON(w, of)
}

// WriteJSON writes streams in JSON, one a line.
func WriteJSON(w io.Writer, of []Stream) error {
	encoder := json.NewEncoder(w)
	for _, s := range of {
		if err := encoder.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// WriteHubble writes streams as Hubble prints flows in JSON, one a line.
func WriteHubble(w io.Writer, of []Stream, taken time.Time) error {
	encoder := json.NewEncoder(w)
	for _, s := range of {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if err := encoder.Encode(hubbleResponse{newHubbleFlow(s, string(text), taken), s.Node, taken}); err != nil {
			return err
		}
	}
	return nil
}

func newHubbleFlow(s Stream, text string, taken time.Time) hubbleFlow {
	f := hubbleFlow{
		Time: taken, Verdict: "FORWARDED", Type: "L3_L4", NodeName: s.Node,
		Extensions: map[string]string{"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text},
	}
	if s.Drops {
		f.Verdict = "DROPPED"
	}
	if s.Direction != "" {
		reply := s.Direction == flowapi.Reply
		f.IsReply = &reply
	}
	to := s.To
	if kind, name := split(s.To); kind == "svc" {
		f.DestinationService, to = &name, s.Via
	}
	f.Source, f.Destination = hubbleEnd(s.From), hubbleEnd(to)
	if ip := (hubbleIP{Source: addressIn(s.From), Destination: addressIn(to)}); ip != (hubbleIP{}) {
		ip.Version = "IPv4"
		if strings.Contains(ip.Source+ip.Destination, ":") {
			ip.Version = "IPv6"
		}
		f.IP = &ip
	}
	layer := map[string]string{"tcp": "TCP", "udp": "UDP", "sctp": "SCTP", "icmp": "ICMPv4", "icmp6": "ICMPv6"}[s.Protocol]
	if layer != "" {
		ports := map[string]int{}
		if port, err := strconv.Atoi(s.Port); err == nil {
			ports["destination_port"] = port
		}
		f.L4 = map[string]map[string]int{layer: ports}
	}
	return f
}

// split reads kind/namespace/name.
func split(object string) (kind string, name hubbleName) {
	parts := strings.Split(object, "/")
	if len(parts) != 3 {
		return "", name
	}
	return parts[0], hubbleName{Namespace: parts[1], Name: parts[2]}
}

// hubbleEnd names a pod. Others have the labels that Hubble gives ends without a pod.
func hubbleEnd(end string) *hubbleEndpoint {
	switch kind, name := split(end); {
	case kind == "pod":
		return &hubbleEndpoint{Namespace: name.Namespace, PodName: name.Name}
	case strings.HasPrefix(end, "node/"):
		return &hubbleEndpoint{Labels: []string{"reserved:host"}}
	case end == "":
		return nil
	}
	return &hubbleEndpoint{Labels: []string{"reserved:world"}}
}

func addressIn(end string) string {
	if _, err := netip.ParseAddr(end); err != nil {
		return ""
	}
	return end
}
