package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// TestPlaces_OneCallerNeverHasAll, and a free place goes to the caller that has the fewest.
func TestPlaces_OneCallerNeverHasAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(4, 3, 10)
		granted := make(chan string, 100)
		leaves := map[string][]func(){}
		take := func(who string) {
			go func() {
				if leave, err := p.take(t.Context(), who); err == nil {
					leaves[who] = append(leaves[who], leave) // one at a time: each is waited for
					granted <- who
				}
			}()
			synctest.Wait()
		}
		got := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, who := range want {
				select {
				case is := <-granted:
					if is != who {
						t.Errorf("a place for %s, want %s", is, who)
					}
				default:
					t.Errorf("no place for %s", who)
				}
			}
			if len(granted) > 0 {
				t.Errorf("a further place for %s", <-granted)
			}
		}
		for range 10 {
			take("loops")
		}
		got("loops", "loops", "loops")
		take("tenant")
		got("tenant")
		take("viewer")
		got() // all are taken
		leaves["loops"][0]()
		got("viewer") // which came last, and has none
		leave := leaves["tenant"][0]
		leave()
		leave() // does not count twice
		got("loops")
		if p.total != 4 {
			t.Errorf("%d places are taken, want 4", p.total)
		}
	})
}

// TestPlaces_RefuseWhoHasTooManyWaiting, and no others. Who goes leaves no place taken.
func TestPlaces_RefuseWhoHasTooManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(2, 1, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for range 4 {
			go func() { _, _ = p.take(ctx, "loops") }()
		}
		synctest.Wait()
		if _, err := p.take(ctx, "loops"); !errors.Is(err, web.ErrBusy) {
			t.Errorf("a fifth request: %v", err)
		}
		leave, err := p.take(t.Context(), "tenant")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		cancel()
		synctest.Wait()
		if len(p.queue) != 0 || p.total != 1 || p.taken["loops"] != 1 {
			t.Errorf("%d wait, places are taken: %v", len(p.queue), p.taken)
		}
	})
}

// accounts has many tokens of a user: NAME/TOKEN.
type accounts struct{ *rights }

func (a accounts) Whose(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	name, _, _ := strings.Cut(token, "/")
	return a.rights.Whose(ctx, name)
}

// TestAdmit_BoundsStreamsOfACaller by all tokens of a user, and not those of others. Administrators share an account:
// each of their tokens is a caller.
func TestAdmit_BoundsStreamsOfACaller(t *testing.T) {
	r := newRelay(own, foreign, accounts{&rights{of: callers()}})
	admit := func(caller string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/stream/overview", nil)
		request.Header.Set("Authorization", "Bearer "+caller)
		_, err := r.Admit(request, true)
		return err
	}
	for _, caller := range []string{"tenant/1", "admin/1", "admin/2"} {
		for i := range streamsEach {
			if err := admit(caller); err != nil {
				t.Fatalf("stream %d of %s: %v", i, caller, err)
			}
		}
		if err := admit(caller); !errors.Is(err, web.ErrBusy) {
			t.Errorf("a further stream of %s: %v", caller, err)
		}
	}
	if err := admit("tenant/2"); !errors.Is(err, web.ErrBusy) {
		t.Errorf("a further stream of the tenant, with another token: %v", err)
	}
	if err := admit("unknown"); !errors.Is(err, web.ErrUnknown) {
		t.Errorf("a caller who is not known: %v", err)
	}
}

// TestNodes_AQuestionWithoutRulesWaitsForNone with rules: their answers are small.
func TestNodes_AQuestionWithoutRulesWaitsForNone(t *testing.T) {
	o, from := world(own, foreign)
	agent := waiting{from, make(chan struct{}, 100), make(chan struct{})}
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": agent} }
	r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
	done := make(chan int, ruledAtOnce)
	for range cap(done) {
		go func() {
			code, _ := ask(t, r, "admin", "/api/v1/nodes/w1/v1/flows?why=true")
			done <- code
		}()
	}
	for range ruledEach {
		<-agent.asked
	}
	if code, body := ask(t, r, "admin", "/api/v1/nodes/w1/v1/summary"); code != 200 {
		t.Errorf("a summary: %d: %s", code, body)
	}
	close(agent.let)
	for i := range cap(done) {
		if code := <-done; code != 200 {
			t.Error(fmt.Sprintf("question %d", i), code)
		}
	}
}
