package shim

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

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
