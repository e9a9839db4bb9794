package disrupt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// MaxSilence is the longest silence that is good where the user names no other.
const MaxSilence = 5 * time.Second

const (
	// beginWithin is the time for all connections to begin, and lookEvery that between two looks.
	beginWithin = time.Minute
	lookEvery   = time.Second
)

// ErrAbsent says that there are no connections.
var ErrAbsent = errors.New("no connections last: their namespace " + Namespace + " is not there\nnext: kubectl offload test --setup-disrupt")

// Session makes connections that last, and asks what became of them.
type Session struct{ conncheck.Session }

// NewSession runs commands in the namespace by exec, which was made for it.
func NewSession(client dynamic.Interface, exec *sysdump.Cluster) *Session {
	of := scratch.Namespace{Client: client, Name: Namespace, Label: conncheck.Label, Purpose: "test of disturbances"}
	return &Session{conncheck.Session{Session: scratch.Session{Namespace: of, Exec: exec}}}
}

// Setup makes the pods and waits until all connections have begun. Those that have not begun in time fail, and none is left then.
func (s *Session) Setup(ctx context.Context, w io.Writer, at conncheck.Place) (out *conncheck.Outcome, err error) {
	fmt.Fprintf(w, "makes pods in namespace %s on %s and %s\n", Namespace, at.NodeA, at.NodeB)
	good := func() bool { return out != nil && !failed(out) }
	err = s.Hold(ctx, w, "kubectl offload test --check-disrupt, or --cleanup", good, func() error {
		out, err = s.begin(ctx, at)
		return err
	})
	return out, err
}

func failed(out *conncheck.Outcome) bool {
	return slices.ContainsFunc(out.Results, func(r conncheck.Result) bool { return r.Verdict == conncheck.Fail })
}

func (s *Session) begin(ctx context.Context, at conncheck.Place) (*conncheck.Outcome, error) {
	if err := s.Make(ctx, serverObjects(at)); err != nil {
		return nil, err
	}
	env, err := s.Env(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := s.Extend(ctx, clientObjects(at, env)); err != nil {
		return nil, err
	}
	for end := time.Now().Add(beginWithin); ; {
		f, err := s.look(ctx)
		if err != nil {
			return nil, err
		}
		out := f.outcome(beginWithin)
		if !failed(out) && len(out.Missing) == 0 || time.Now().After(end) {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// Check says what became of the connections and where their pods are, and removes them.
func (s *Session) Check(ctx context.Context, w io.Writer, longest time.Duration, keep bool) (out *conncheck.Outcome, at conncheck.Place, err error) {
	if _, err := s.Client.Resource(scratch.Namespaces()).Get(ctx, Namespace, metav1.GetOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			err = ErrAbsent
		}
		return nil, at, err
	}
	f, err := s.look(ctx)
	if err != nil {
		return nil, at, err
	}
	err = s.Hold(ctx, w, "", func() bool { return keep }, func() error { return nil })
	return f.outcome(longest), place(f.pods), err
}

// look reads the pods, and asks those of the clients that the cluster has not changed.
func (s *Session) look(ctx context.Context) (f found, err error) {
	if f.pods, err = scratch.List[corev1.Pod](ctx, s.Namespace, "Pod"); err != nil {
		return f, err
	}
	f.kept, f.silent = map[string]map[string]probe.Lasted{}, map[string]string{}
	for _, name := range clients() {
		if f.change(name) != "" {
			continue
		}
		var kept map[string]probe.Lasted
		if err := s.Run(ctx, name, []string{"ovn-offload-agent", "probe", "kept"}, &kept); err != nil {
			f.silent[name] = fmt.Sprintf("asking in pod %s: %v", name, err)
			continue
		}
		f.kept[name] = kept
	}
	return f, ctx.Err()
}

func (f found) outcome(longest time.Duration) *conncheck.Outcome {
	out := &conncheck.Outcome{Results: f.results(longest)}
	for _, name := range clients() {
		if text := f.silent[name]; text != "" {
			out.Missing = append(out.Missing, text)
		}
	}
	return out
}
