package netdev

import (
	"errors"
	"fmt"
	"maps"

	"github.com/safchain/ethtool"
)

// Ethtool is what ethtool(8) changes of a link. A part that the driver does not have
// is nil.
type Ethtool struct {
	Rings    *Rings    `json:"rings,omitempty"`
	Channels *Channels `json:"channels,omitempty"`
	// Features says of those that can be changed whether they are requested.
	Features map[string]bool `json:"features,omitempty"`
}

// Clone shares nothing with e.
func (e Ethtool) Clone() Ethtool {
	if e.Rings != nil {
		e.Rings = new(*e.Rings)
	}
	if e.Channels != nil {
		e.Channels = new(*e.Channels)
	}
	e.Features = maps.Clone(e.Features)
	return e
}

// Rings are numbers of entries.
type Rings struct {
	RX      uint32 `json:"rx,omitempty"`
	RXMini  uint32 `json:"rxMini,omitempty"`
	RXJumbo uint32 `json:"rxJumbo,omitempty"`
	TX      uint32 `json:"tx,omitempty"`
}

// Channels are numbers of queues.
type Channels struct {
	RX       uint32 `json:"rx,omitempty"`
	TX       uint32 `json:"tx,omitempty"`
	Other    uint32 `json:"other,omitempty"`
	Combined uint32 `json:"combined,omitempty"`
}

// Ethtool asks the link's driver. The error is about the parts that are nil.
func (d *Devices) Ethtool(link string) (e Ethtool, err error) {
	rings, ringsErr := d.ethtool.GetRing(link)
	if ringsErr == nil {
		e.Rings = ringsOf(rings)
	}
	channels, channelsErr := d.ethtool.GetChannels(link)
	if channelsErr == nil {
		e.Channels = channelsOf(channels)
	}
	var featuresErr error
	e.Features, featuresErr = d.requested(link)
	return e, ethtoolErrors(link, ringsErr, channelsErr, featuresErr)
}

// SetEthtool changes what differs. A part that is nil, and one that the driver does
// not support, stays as it is.
func (d *Devices) SetEthtool(link string, want Ethtool) error {
	errs := []error{d.setRings(link, want.Rings), d.setChannels(link, want.Channels), d.setFeatures(link, want.Features)}
	for i, err := range errs {
		if errors.Is(err, errors.ErrUnsupported) {
			errs[i] = nil
		}
	}
	return ethtoolErrors(link, errs...)
}

// ethtoolErrors joins errors about rings, channels and features.
func ethtoolErrors(link string, errs ...error) error {
	var list []error
	for i, part := range []string{"rings", "channels", "features"} {
		if errs[i] != nil {
			list = append(list, fmt.Errorf("%s of link %s: %w", part, link, errs[i]))
		}
	}
	return errors.Join(list...)
}

func ringsOf(r ethtool.Ring) *Rings {
	return &Rings{RX: r.RxPending, RXMini: r.RxMiniPending, RXJumbo: r.RxJumboPending, TX: r.TxPending}
}

func channelsOf(c ethtool.Channels) *Channels {
	return &Channels{RX: c.RxCount, TX: c.TxCount, Other: c.OtherCount, Combined: c.CombinedCount}
}

// requested gives the features that can be changed.
func (d *Devices) requested(link string) (map[string]bool, error) {
	states, err := d.ethtool.FeaturesWithState(link)
	if err != nil {
		return nil, err
	}
	features := map[string]bool{}
	for name, state := range states {
		if state.Available && !state.NeverChanged {
			features[name] = state.Requested
		}
	}
	return features, nil
}

func (d *Devices) setRings(link string, want *Rings) error {
	if want == nil {
		return nil
	}
	now, err := d.ethtool.GetRing(link)
	if err != nil || *ringsOf(now) == *want {
		return err
	}
	now.RxPending, now.RxMiniPending, now.RxJumboPending, now.TxPending = want.RX, want.RXMini, want.RXJumbo, want.TX
	_, err = d.ethtool.SetRing(link, now)
	return err
}

func (d *Devices) setChannels(link string, want *Channels) error {
	if want == nil {
		return nil
	}
	now, err := d.ethtool.GetChannels(link)
	if err != nil || *channelsOf(now) == *want {
		return err
	}
	now.RxCount, now.TxCount, now.OtherCount, now.CombinedCount = want.RX, want.TX, want.Other, want.Combined
	_, err = d.ethtool.SetChannels(link, now)
	return err
}

func (d *Devices) setFeatures(link string, want map[string]bool) error {
	if want == nil {
		return nil
	}
	now, err := d.requested(link)
	if err != nil {
		return err
	}
	change := maps.Clone(want)
	maps.DeleteFunc(change, func(name string, on bool) bool {
		is, known := now[name]
		return !known || is == on
	})
	if len(change) == 0 {
		return nil
	}
	return d.ethtool.Change(link, change)
}
