package contract

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
)

// Values is an annotation that has a JSON value for each network, such as PodNetworksKey or NodeSubnetsKey. However many
// values are read and changed, it is parsed once, and not at all while it has one value that is only compared; it is
// formatted once. A Values is for one goroutine.
type Values struct {
	text    string
	raw     map[string]json.RawMessage
	err     error
	parsed  bool
	changed bool
}

// NewValues is for the text of an annotation.
func NewValues(text string) *Values { return &Values{text: text} }

func (v *Values) parse() {
	if v.parsed || v.text == "" {
		return
	}
	v.parsed = true
	v.err = json.Unmarshal([]byte(v.text), &v.raw)
}

// Keys are those of all networks, sorted; none of an annotation that cannot be read.
func (v *Values) Keys() []string {
	if v.parse(); v.err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(v.raw))
}

// value is that of a network, nil when it is not named.
func (v *Values) value(network string) (json.RawMessage, error) {
	if v.parse(); v.err != nil {
		return nil, v.err
	}
	if raw := v.raw[network]; string(raw) != "null" {
		return raw, nil
	}
	return nil, nil
}

// Names says that there is a value for a network.
func (v *Values) Names(network string) bool {
	raw, err := v.value(network)
	return err == nil && raw != nil
}

// Has says that the value of a network is this JSON text.
func (v *Values) Has(network, text string) bool {
	if text != "" && !v.changed && only(v.text, network) == text {
		return true
	}
	raw, err := v.value(network)
	return err == nil && raw != nil && string(raw) == text
}

// Share is text, as a part of an annotation that has it and no other network, so that it needs no memory of its own.
func (v *Values) Share(network, text string) string {
	if value := only(v.text, network); !v.changed && value == text {
		return value
	}
	return text
}

// Set replaces the value of a network by JSON text, or removes it: "". What cannot be read is dropped with it.
func (v *Values) Set(network, text string) {
	if v.parse(); v.err != nil || isBare(v.raw) {
		v.raw, v.err, v.changed = nil, nil, true
	}
	if _, exists := v.raw[network]; text == "" {
		v.changed = v.changed || exists
		delete(v.raw, network)
		return
	}
	if v.raw == nil {
		v.raw = map[string]json.RawMessage{}
	}
	v.raw[network], v.parsed, v.changed = json.RawMessage(text), true, true
}

// String is the text of the annotation, "" without a value. The values that Set got must be JSON.
func (v *Values) String() string {
	if !v.changed {
		return v.text
	}
	v.text, v.changed = "", false
	if len(v.raw) > 0 {
		text, _ := json.Marshal(v.raw)
		v.text = string(text)
	}
	return v.text
}

// PodNetwork reads a value of PodNetworksKey; nil when the network is not named.
func (v *Values) PodNetwork(network string) (*PodNetwork, error) {
	raw, err := v.value(network)
	if raw == nil || err != nil {
		return nil, err
	}
	return parsePodNetwork(raw, network)
}

// NodeSubnets reads a value of NodeSubnetsKey. A network that is not named has no subnet.
func (v *Values) NodeSubnets(network string) ([]netip.Prefix, error) {
	raw, err := v.value(network)
	if raw == nil || err != nil {
		return nil, err
	}
	return parseNodeSubnets(raw, network)
}
