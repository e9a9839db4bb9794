package main

import "testing"

// TestSCTP_RoundTripAndChecksum: what is written is read again, and no bit of it may change.
func TestSCTP_RoundTripAndChecksum(t *testing.T) {
	for _, text := range []string{"", "10.0.0.1 server", "1234"} {
		p := sctpPacket{from: 20000, to: 80, tag: 7, init: 1 << 30, chunk: sctpACK, text: text}
		if got, err := readSCTP(p.bytes()); err != nil || got != p {
			t.Errorf("%+v, %v; want %+v", got, err, p)
		}
		for i := range p.bytes() {
			spoilt := p.bytes()
			spoilt[i] ^= 4
			if got, err := readSCTP(spoilt); err == nil {
				t.Errorf("byte %d of %q spoilt: %+v", i, text, got)
			}
		}
	}
}
