//go:build e2e

package world

import (
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// Soon is what a busy machine may need for a thing that takes a second.
	Soon = 40 * time.Second
	// Patience is how many seconds a client waits: longer than a busy machine needs.
	Patience = "5"
	// LongPatience is longer than a client needs that lost three SYNs.
	LongPatience = "20"
)

// Eventually is the one poller of these tests: it ends with the condition, so that a long time costs a test nothing
// that passes.
func Eventually(t *testing.T, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		good, seen := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s not yet: %s; seen: %s", within, what, seen)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Patiently gives a dial that is to succeed the time in which a first packet that a busy machine has lost is repeated.
func Patiently(command []string) []string {
	if len(command) < 4 || command[0] != "probe" || command[1] != "dial" || command[2] == "sctp" {
		return command
	}
	arguments := []string{"0", LongPatience}
	if given := len(command) - 4; given < len(arguments) {
		return slices.Concat(command, arguments[given:])
	}
	return command
}

// AtOnce runs subtests, three at a time. Subtests that call t.Parallel would begin behind all tests that wait for their
// turn, and the pods of their test would wait with them.
func AtOnce(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	turns := make(chan struct{}, 3)
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(name, test)
		})
	}
	all.Wait()
}

// Attempt asks for an answer; without one there is an error.
type Attempt func() (string, error)

// FailsBeside wants an attempt to fail at a moment at which that of a witness succeeds: on a busy machine, which loses
// packets, every attempt may fail.
func FailsBeside(t *testing.T, what string, forbidden, witness Attempt) {
	t.Helper()
	Eventually(t, Soon, "the witness has an answer beside: "+what, func() (bool, string) {
		var seen string
		var silent error
		var both sync.WaitGroup
		both.Go(func() { seen, silent = witness() })
		out, err := forbidden()
		both.Wait()
		if err == nil {
			t.Errorf("%s: %s", what, out)
		}
		return err == nil || silent == nil, seen
	})
}

// Pings is a command of three pings, of which one has to be answered within a second.
func Pings(to []string) []string { return append([]string{"ping", "-c3", "-i0.3", "-W1"}, to...) }
