package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestStatus_WatchGoesOn until it is interrupted, which is no error. What cannot be repeated is refused.
func TestStatus_WatchGoesOn(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	config := kubeconfigOf(t, server)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		for asked.Load() < 2 && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	cmd := command()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"status", "--watch", "--problems", "--kubeconfig", config})
	if err := cmd.ExecuteContext(ctx); err != nil || !strings.Contains(out.String(), "not known: nodes:") {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, wrong := range []string{"--watch --wait 1s", "--watch -o json", "--watch --from archive.tgz"} {
		if said, code := run(t, "status "+wrong, config); code != 64 {
			t.Errorf("%s: exit code %d: %s", wrong, code, said)
		}
	}
	_, code := run(t, "status", config)
	if _, waited := run(t, "status --wait 1ms", config); code != 3 || waited != 3 {
		t.Error(fmt.Sprint(code, waited))
	}
}

// TestVersion_OfTheClientNeedsNoCluster.
func TestVersion_OfTheClientNeedsNoCluster(t *testing.T) {
	if out, code := run(t, "version --client", "/no/such/file"); code != 0 || !strings.Contains(out, "plugin  "+version) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := run(t, "version", "/no/such/file"); code != 3 {
		t.Errorf("exit code %d: %s", code, out)
	}
}
