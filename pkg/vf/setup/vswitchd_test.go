package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// daemon answers at a control socket as ovs-vswitchd does, and has a successor after the command exit.
func daemon(t *testing.T, dir string, pid int, successor bool) {
	t.Helper()
	socket := filepath.Join(dir, fmt.Sprintf("ovs-vswitchd.%d.ctl", pid))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	write(t, filepath.Join(dir, "ovs-vswitchd.pid"), pid)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var request struct{ Method string }
			_ = json.NewDecoder(conn).Decode(&request)
			_, _ = fmt.Fprintln(conn, `{"result":"ok","error":null,"id":0}`)
			_ = conn.Close()
			if request.Method == "exit" {
				_ = listener.Close()
				if successor {
					daemon(t, dir, pid+1, false)
				}
				return
			}
		}
	}()
}

func write(t *testing.T, file string, pid int) {
	t.Helper()
	if err := os.WriteFile(file, []byte(fmt.Sprintln(pid)), 0o600); err != nil {
		t.Error(err)
	}
}

func TestRestart_SupervisedVswitchdOnly(t *testing.T) {
	dir := t.TempDir()
	v := Vswitchd{
		Client:   unixctl.Client{Dir: dir, Daemon: "ovs-vswitchd"},
		Observed: func() (offload.Observed, bool) { return offload.Observed{}, true },
	}
	daemon(t, dir, 7, true)
	for _, kept := range []int{0, 8} { // no process; another process, long ago
		if kept != 0 {
			write(t, filepath.Join(dir, "ovs-vswitchd.kept"), kept)
		}
		if err := v.Restart(t.Context()); err == nil || v.Observe().Supervised {
			t.Errorf("kept %d: %v", kept, err)
		}
	}
	if _, err := v.Client.Call(t.Context(), "version"); err != nil {
		t.Fatalf("it got the command exit: %v", err)
	}
	write(t, filepath.Join(dir, "ovs-vswitchd.kept"), 7)
	if !v.Observe().Supervised {
		t.Error("not supervised")
	}
	if err := v.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := v.Client.Instance(); err != nil || now.PID != 8 {
		t.Errorf("%+v, %v", now, err)
	}
	// The successor is not followed by another.
	write(t, filepath.Join(dir, "ovs-vswitchd.kept"), 8)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := v.Restart(ctx); err == nil || !strings.Contains(err.Error(), "is not back") {
		t.Error(err)
	}
	v.Observed = func() (offload.Observed, bool) { return offload.Observed{}, false }
	if v.Observe() != nil {
		t.Error("observed a disconnected OVS")
	}
}

// What cannot be done now is looked at again.
func TestSetup_RetriesRefusedPolicy(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.cards[first].vfs = 1
	w.used[vfName(first, 0)] = "pod default/web"
	w.policies = append(w.policies, policy("p", 1, spec(2)))
	synctest.Test(t, func(t *testing.T) {
		w.t = t // timers belong to the bubble
		ctx, stop := context.WithCancel(t.Context())
		r := w.agent()
		done := make(chan struct{})
		go func() { _ = r.Run(ctx); close(done) }()
		synctest.Wait()
		if got := r.Results(); len(got) != 2 || got[0].State != "DrainNeeded" {
			t.Errorf("%+v", got)
		}
		w.mu.Lock()
		w.used = map[string]string{}
		w.mu.Unlock()
		time.Sleep(recheckInterval + time.Second)
		synctest.Wait()
		if got := r.Results(); got[0].State != "Applied" || w.cards[first].vfs != 2 {
			t.Errorf("%+v", got)
		}
		stop()
		<-done
	})
}
