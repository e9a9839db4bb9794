// Package shim is the thin side of the CNI plugin: what the runtime executes,
// and the protocol that it speaks with the agent.
//
// Place in the data flow:
//
//	runtime -> stdin, CNI_* -> Main -> POST / on a unix socket -> pkg/cni Server
//	runtime <- stdout       <-      <- CNI result or CNI error <-
//
// It is a package of its own because it must stay small and start in
// milliseconds: it imports neither Kubernetes nor OVN nor netlink, which the
// server beside it does. Checks that the runtime gets wrong rarely (variables,
// version, network name) are made here by the CNI project's skel, so that they
// are answered without the agent; the agent makes them again.
//
// The protocol is private, but the binary and the agent are replaced one after
// the other: both sides ignore fields that they do not know.
//
// When the agent does not answer, commands fail with "try again later" (11). DEL
// succeeds: a pod must be able to go without us, its link goes with its namespace,
// and the agent sweeps the port of a pod that is gone when it starts. STATUS
// succeeds for Grace after the last time that the agent was ready, and then fails
// with "plugin not available" (50): a kubelet whose STATUS fails reports its
// node NotReady. Such a node has taints that evict pods, and load balancers and
// alerts take it for broken, none of which is right whenever an agent restarts.
package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// DefaultSocket is where the agent listens, unless the configuration's "socket" says otherwise.
const DefaultSocket = "/run/ovn-kubernetes/cni/ovn-cni-server.sock"

// MaxBody is the size in bytes beyond which either side refuses a message.
const MaxBody = 1 << 20

// Deadline is how long a command may take, the same as the runtimes' own limit.
const Deadline = 2 * time.Minute

// Grace is how long STATUS succeeds without an agent: an upgrade pulls its image meanwhile.
const Grace = 2 * time.Minute

// Request is one CNI command: the runtime's CNI_* variables and its stdin.
type Request struct {
	Command     string          `json:"command"`
	ContainerID string          `json:"containerID,omitempty"`
	Netns       string          `json:"netns,omitempty"`
	IfName      string          `json:"ifName,omitempty"`
	Args        string          `json:"args,omitempty"`
	Path        string          `json:"path,omitempty"`
	Config      json.RawMessage `json:"config"`
}

// Versions are the CNI versions that plugin and agent speak.
func Versions() version.PluginInfo {
	return version.PluginSupports("0.3.1", "0.4.0", "1.0.0", "1.1.0")
}

// Main runs one command of the runtime; the error, if any, belongs on stdout.
func Main(about string) *types.Error {
	command := func(name string) func(*skel.CmdArgs) error {
		return func(a *skel.CmdArgs) error { return forward(name, a) }
	}
	return skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add: command("ADD"), Del: command("DEL"), Check: command("CHECK"), GC: command("GC"), Status: command("STATUS"),
	}, Versions(), about)
}

func forward(command string, a *skel.CmdArgs) error {
	var conf struct {
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal(a.StdinData, &conf); err != nil {
		return types.NewError(types.ErrDecodingFailure, "reading the network configuration", err.Error())
	}
	if conf.Socket == "" {
		conf.Socket = DefaultSocket
	}
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	out, cniErr := Call(ctx, conf.Socket, Request{
		Command: command, ContainerID: a.ContainerID, Netns: a.Netns, IfName: a.IfName,
		Args: a.Args, Path: a.Path, Config: a.StdinData,
	})
	if cniErr != nil {
		// The runtime shows the message alone, and docs/failures has a page for each code.
		cniErr.Msg = fmt.Sprintf("error %d: %s", cniErr.Code, cniErr.Msg)
		return cniErr
	}
	if _, err := os.Stdout.Write(out); err != nil {
		return types.NewError(types.ErrIOFailure, "writing the result", err.Error())
	}
	return nil
}

// Call sends one command to the agent and gives the bytes for stdout.
func Call(ctx context.Context, socket string, r Request) ([]byte, *types.Error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "writing the request", err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/", bytes.NewReader(body))
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "writing the request", err.Error())
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, unanswered(r.Command, socket, err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody))
	if err != nil {
		return nil, unanswered(r.Command, socket, err)
	}
	if r.Command == "STATUS" {
		note(socket, resp.StatusCode == http.StatusOK)
	}
	if resp.StatusCode == http.StatusOK {
		return out, nil
	}
	cniErr := &types.Error{}
	if json.Unmarshal(out, cniErr) != nil || cniErr.Code == 0 {
		return nil, types.NewError(types.ErrInternal, "agent answered "+resp.Status, string(out))
	}
	return nil, cniErr
}

func unanswered(command, socket string, err error) *types.Error {
	code := types.ErrTryAgainLater
	switch command {
	case "DEL":
		return nil
	case "STATUS":
		if wasReady(socket) {
			return nil
		}
		code = types.ErrPluginNotAvailable
	}
	return types.NewError(code, fmt.Sprintf("%s: no answer from ovn-offload-agent at %s", command, socket), err.Error())
}

// note keeps when the agent was ready last, as the time of a file beside the socket, where the kernel forgets it with a
// reboot. Without the file STATUS has no grace, so its errors need no answer.
func note(socket string, ready bool) {
	if file := readyFile(socket); ready {
		_ = os.WriteFile(file, nil, 0o600)
	} else {
		_ = os.Remove(file)
	}
}

func wasReady(socket string) bool {
	info, err := os.Stat(readyFile(socket))
	return err == nil && time.Since(info.ModTime()) < Grace
}

func readyFile(socket string) string { return socket + ".ready" }
