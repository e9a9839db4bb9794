package flownames

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// acl is a model of the Northbound.
type acl struct {
	UUID        string            `ovsdb:"_uuid"`
	Action      string            `ovsdb:"action"`
	Direction   string            `ovsdb:"direction"`
	Name        *string           `ovsdb:"name"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// southboundOf gives the rows of the fixture as a server does.
type southboundOf struct {
	rows  databases
	reads int
	takes time.Duration
	err   error
}

func (s *southboundOf) read(_ context.Context, tables map[string][]string) (map[string][]json.RawMessage, error) {
	s.reads++
	time.Sleep(s.takes)
	out := map[string][]json.RawMessage{}
	for table, rows := range s.rows {
		if tables[table] == nil {
			continue
		}
		for _, text := range rows {
			var cells []json.RawMessage
			if err := json.Unmarshal([]byte(text), &cells); err != nil {
				return nil, err
			}
			row := map[string]json.RawMessage{"_uuid": cells[0]}
			for i, column := range strings.Split(southbound[table], ",") {
				row[column] = cells[i+1]
			}
			text, err := json.Marshal(row)
			if err != nil {
				return nil, err
			}
			out[table] = append(out[table], text)
		}
	}
	return out, s.err
}

func live(s *southboundOf) *Live {
	return NewLive(&Live{Read: s.read, Table: func(table string) ([]any, error) {
		owner := func(of string) map[string]string { return map[string]string{"ovn-offload.io/owner": of} }
		switch table {
		case "ACL":
			ids := owner("NetworkPolicy/shop/allow")
			ids["direction"], ids["gress-index"] = "Ingress", "0"
			return []any{&acl{UUID: "11111111" + tail, Action: "allow-related", Direction: "to-lport", ExternalIDs: ids}}, nil
		case "Load_Balancer":
			return []any{&acl{UUID: "02222222" + tail, ExternalIDs: owner("Service/shop/db")}, &acl{UUID: "03333333" + tail}}, nil
		}
		return nil, nil
	}}, prometheus.NewRegistry())
}

// TestLive_NamesAsThePrograms: the index of the process that has a replica gives the names that the programs give.
func TestLive_NamesAsThePrograms(t *testing.T) {
	cookies := []uint64{0xf637, 0xaaaaaaaa, 0xbbbbbbbb, 0xcccccccc, 0xdddddddd, 0xeeeeeeee, 0x6f766e00010000}
	want, err := Databases{Programs(cluster().run)}.Names(t.Context(), cookies)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Databases{live(&southboundOf{rows: cluster()})}.Names(t.Context(), cookies)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -programs +live\n%s", err, diff)
	}
	if len(want) != 6 || want[0xaaaaaaaa].Objects[0] != "NetworkPolicy/shop/allow" {
		t.Errorf("%+v", want)
	}
}

// TestLive_ReadsWhenItMissesACookie, for a twentieth of the time or each ten seconds, and forgets without questions.
func TestLive_ReadsWhenItMissesACookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &southboundOf{rows: cluster(), takes: time.Second}
		l := live(s)
		ask := func(cookie uint64) flowapi.Name {
			names, err := Databases{l}.Names(t.Context(), []uint64{cookie})
			if err != nil {
				t.Fatal(err)
			}
			return names[cookie]
		}
		for range 3 {
			ask(0xaaaaaaaa)
			ask(0xbbbbbbbb)
		}
		if s.reads != 1 {
			t.Errorf("%d readings for cookies that are there", s.reads)
		}
		time.Sleep(3 * time.Second)
		if n := ask(0x12345678); !strings.Contains(n.Problem, "has no row 12345678 when it was read 4 s ago") || s.reads != 1 {
			t.Errorf("%+v after %d readings", n, s.reads)
		}
		s.rows["Logical_Flow"] = append(s.rows["Logical_Flow"], row("12345678", ids("stage-name", "ls_in_lb")+`,"ingress",9`))
		time.Sleep(readEvery)
		if n := ask(0x12345678); n.Stage != "ls_in_lb" || s.reads != 2 {
			t.Errorf("%+v after %d readings", n, s.reads)
		}
		if got := testutil.ToFloat64(l.misses); got != 3 {
			t.Errorf("%v misses counted, want 3", got)
		}
		time.Sleep(keptFor + time.Second)
		l.mu.Lock()
		kept := len(l.flows)
		l.mu.Unlock()
		if kept != 0 {
			t.Errorf("%d rows kept without questions", kept)
		}
		s.err = errors.New("no Southbound")
		for range 3 {
			if _, err := (Databases{l}).Names(t.Context(), []uint64{0xaaaaaaaa}); !errors.Is(err, s.err) {
				t.Error(err)
			}
		}
		if s.reads != 3 {
			t.Errorf("%d readings, want one more", s.reads)
		}
		s.err, s.takes = nil, 10*time.Millisecond
		time.Sleep(readEvery)
		ask(1)
		time.Sleep(190 * time.Millisecond)
		ask(1)
		time.Sleep(10 * time.Millisecond)
		ask(1)
		if s.reads != 5 {
			t.Errorf("%d readings, want two more: each takes 10 ms", s.reads)
		}
	})
}

// TestLive_KeepsCollisions: rows with one beginning are all named.
func TestLive_KeepsCollisions(t *testing.T) {
	db := cluster()
	db["Port_Binding"] = append(slices.Clone(db["Port_Binding"]), row("aaaaaaaa", ids("ovn-offload.io/owner", "Pod/shop/other")+`,"shop_other",""`))
	names, err := Databases{live(&southboundOf{rows: db})}.Names(t.Context(), []uint64{0xaaaaaaaa})
	if n := names[0xaaaaaaaa]; err != nil || !slices.Equal(n.Objects, []string{"NetworkPolicy/shop/allow", "Pod/shop/other"}) || !strings.Contains(n.Problem, "2 rows of the Southbound") {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestHandler_AnswersItsClient, and refuses what is too much.
func TestHandler_AnswersItsClient(t *testing.T) {
	s := &southboundOf{rows: cluster()}
	registry := prometheus.NewRegistry()
	server := httptest.NewServer(Handler(Databases{live(s)}, registry))
	t.Cleanup(server.Close)
	client := Client{URL: server.URL, HTTP: http.DefaultClient}
	names, err := client.Names(t.Context(), []uint64{0xaaaaaaaa, 0x6f766e00010000})
	if err != nil || len(names) != 1 || names[0xaaaaaaaa].Objects[0] != "NetworkPolicy/shop/allow" {
		t.Errorf("%+v, %v", names, err)
	}
	if _, err := client.Names(t.Context(), make([]uint64, MaxCookies+1)); err == nil || !strings.Contains(err.Error(), "4001 cookies, at most 4000") {
		t.Error(err)
	}
	flows := []*flowapi.Flow{{ID: "u", Why: &flowapi.Why{}}}
	for cookie := range uint64(MaxCookies + 100) { // in two requests
		flows[0].Why.Rules = append(flows[0].Why.Rules, flowapi.Rule{Cookie: 0xaaaaaaaa - cookie})
	}
	if err := Add(t.Context(), client, flows); err != nil || !slices.Equal(flows[0].DecidedBy, []string{"NetworkPolicy/shop/allow"}) {
		t.Errorf("%v, %v", flows[0].DecidedBy, err)
	}
	response, err := http.Post(server.URL+Path, "application/json", strings.NewReader("{"))
	if err != nil || response.StatusCode != http.StatusBadRequest {
		t.Error(response, err)
	}
	response.Body.Close()
	s.err = errors.New("this controller does not lead")
	s.rows = nil
	broken := httptest.NewServer(Handler(Databases{live(s)}, prometheus.NewRegistry()))
	t.Cleanup(broken.Close)
	if _, err := (Client{URL: broken.URL, HTTP: http.DefaultClient}).Names(t.Context(), []uint64{7}); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "does not lead") {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "ovn_offload_flow_names_requests_total"); n != 2 || err != nil {
		t.Errorf("%d series of requests, %v", n, err)
	}
}

func BenchmarkLive_ReadsAHundredThousandFlows(b *testing.B) {
	s := &southboundOf{rows: databases{}}
	for i := range 100_000 {
		s.rows["Logical_Flow"] = append(s.rows["Logical_Flow"], row(fmt.Sprintf("%08x", i*7919), ids("stage-name", "ls_in_acl_eval", "stage-hint", fmt.Sprintf("%08x", i))+`,"ingress",8`))
	}
	read, err := s.read(b.Context(), map[string][]string{"Logical_Flow": {"external_ids"}})
	if err != nil {
		b.Fatal(err)
	}
	l := NewLive(&Live{Read: func(context.Context, map[string][]string) (map[string][]json.RawMessage, error) { return read, nil }}, prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		if err := l.readAll(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
