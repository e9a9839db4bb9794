package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestSouthbound_LossIsReportedWithTheReasonOfEachEndpoint(t *testing.T) {
	var log strings.Builder
	status, reason := "connected\n", errors.New("ssl:a: the cluster has no leader\nssl:b: connection refused")
	s := &southbound{
		status: func(context.Context) (string, error) { return status, nil },
		check:  func(context.Context) error { return reason },
		log:    slog.New(slog.NewTextHandler(&log, nil)),
	}
	look := func(times int) string {
		for range times {
			s.look(t.Context())
		}
		if err := s.Ready(); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := look(3); got != "" || log.Len() > 0 {
		t.Errorf("connected: %q, log %s", got, log.String())
	}
	status = "not connected\n"
	if got := look(1); got != "" {
		t.Errorf("a change of the relay: %q", got)
	}
	if got, want := look(3), "the Southbound is not connected: ssl:a: the cluster has no leader; ssl:b: connection refused"; got != want {
		t.Errorf("lost: %q, want %q", got, want)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings for one reason: %s", n, log.String())
	}
	s.status = func(context.Context) (string, error) { return "", errors.New("no such file") }
	if got := look(1); got != "" {
		t.Errorf("ovn-controller does not answer: %q", got)
	}
	if !strings.Contains(log.String(), "connected to the Southbound database again") {
		t.Errorf("log %s", log.String())
	}
}
