package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Leader asks the leading controller for the names of flows. Its Lease says where, and by which certificate it is known.
type Leader struct {
	// Objects are those of the API server.
	Objects func() *snapshot.Snapshot
	// Token is the relay's own for the audience flownames.Audience: it is good for nothing else.
	Token func() (string, error)

	mu     sync.Mutex
	at     endpoint
	client flownames.Client
}

var _ flownames.Asker = (*Leader)(nil)

// Names implements flownames.Asker.
func (l *Leader) Names(ctx context.Context, cookies []uint64) (map[uint64]flowapi.Name, error) {
	at, err := l.find()
	if err != nil {
		return nil, err
	}
	return l.clientOf(at).Names(ctx, cookies)
}

// find reads the Lease of the controllers. Others, which nodes hold, do not count.
func (l *Leader) find() (endpoint, error) {
	for _, object := range l.Objects().Shared(snapshot.Leases) {
		if name, _, _ := unstructured.NestedString(object.Fields(), "metadata", "name"); name != leader.Defaults().Name {
			continue
		}
		text, _, _ := unstructured.NestedString(object.Fields(), "metadata", "annotations", flownames.LeaseKey)
		if text == "" {
			continue
		}
		var at flownames.Endpoint
		if err := json.Unmarshal([]byte(text), &at); err != nil || at.Address == "" || at.Fingerprint == "" {
			return endpoint{}, fmt.Errorf("annotation %s of the Lease %s is not an address and a fingerprint", flownames.LeaseKey, leader.Defaults().Name)
		}
		return endpoint{at.Address, at.Fingerprint}, nil
	}
	return endpoint{}, errors.New("no controller serves them")
}

// clientOf keeps the client until another controller leads.
func (l *Leader) clientOf(at endpoint) flownames.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at != at {
		if l.client.HTTP != nil {
			l.client.HTTP.CloseIdleConnections()
		}
		l.at, l.client = at, flownames.Client{URL: "https://" + at.address, HTTP: &http.Client{Transport: withToken{at.transport(nil), l.Token}}}
	}
	return l.client
}

// withToken shows a token to the server, whose certificate is known by then.
type withToken struct {
	*http.Transport
	token func() (string, error)
}

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := w.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return w.Transport.RoundTrip(r)
}

// addNames names flows of an agent. Those of one that asked for no rules have nothing to name.
func addNames(ctx context.Context, from flownames.Asker, agent flowapi.Source, got *flowapi.Flows) error {
	if from == nil {
		return nil
	}
	missing, err := flownames.AddAll(ctx, from, func(string) flowapi.Source { return agent }, flowapi.Each(got))
	if err != nil {
		return err
	}
	streams.Inherit(got.Flows)
	if len(missing) > 0 {
		return errors.New(strings.Join(missing, ", "))
	}
	return nil
}

// noNames says to a caller why flows have no names. Addresses of the network are for those who may see nodes.
func noNames(err error, sight *Sight) []string {
	switch {
	case err == nil:
		return nil
	case sight.Nodes:
		return []string{"names of flows: " + err.Error()}
	}
	return []string{"names of flows: the leading controller does not answer"}
}
