package shim

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// TestForward_MessageNamesCode: the kubelet's Event has the message alone, and a user needs the code for its page.
func TestForward_MessageNamesCode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	agent := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // of a test
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(types.NewError(103, "flows: ovn-controller has not set ovn-installed", ""))
	})}
	go func() { _ = agent.Serve(listener) }()
	t.Cleanup(func() { _ = agent.Close() })
	for conf, want := range map[string]string{
		`{"socket":"` + socket + `"}`:        "error 103: flows: ovn-controller has not set ovn-installed",
		`{"socket":"` + socket + `.absent"}`: "error 11: ADD: no answer from ovn-offload-agent",
	} {
		err := forward("ADD", &skel.CmdArgs{StdinData: []byte(conf)})
		var cniErr *types.Error
		if !errors.As(err, &cniErr) || !strings.HasPrefix(cniErr.Msg, want) {
			t.Errorf("%s: %v, want %q", conf, err, want)
		}
	}
}

// TestStatus_OutlastsARestartOfTheAgent: a kubelet whose STATUS fails reports its node NotReady.
func TestStatus_OutlastsARestartOfTheAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ready := true
	start := func() *http.Server {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		agent := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // of a test
			if !ready {
				w.WriteHeader(http.StatusInternalServerError)
				_ = json.NewEncoder(w).Encode(types.NewError(types.ErrPluginNotAvailable, "the DPU is not ready", ""))
			}
		})}
		go func() { _ = agent.Serve(listener) }()
		t.Cleanup(func() { _ = agent.Close() })
		return agent
	}
	want := func(state, want string) {
		t.Helper()
		got := ""
		if _, err := Call(t.Context(), socket, Request{Command: "STATUS"}); err != nil {
			got = err.Msg
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	want("before the first start", "no answer from ovn-offload-agent")
	agent := start()
	want("ready", "")
	_ = agent.Close()
	want("restarting", "")
	if _, err := Call(t.Context(), socket, Request{Command: "ADD"}); err == nil || err.Code != types.ErrTryAgainLater {
		t.Errorf("ADD without an agent: %v", err)
	}
	past := time.Now().Add(-Grace)
	if err := os.Chtimes(socket+".ready", past, past); err != nil {
		t.Fatal(err)
	}
	want("gone for long", "no answer from ovn-offload-agent")
	agent = start()
	want("ready again", "")
	ready = false
	want("not ready", "the DPU is not ready")
	_ = agent.Close()
	want("gone after it was not ready", "no answer from ovn-offload-agent")
}
