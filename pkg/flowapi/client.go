package flowapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Client asks one agent.
type Client struct {
	// URL is the agent's, such as https://192.0.2.7:9416.
	URL string
	// HTTP has the certificate of the relay, and checks that of the agent.
	HTTP *http.Client
	// Token, if set, is that of an account.
	Token string
	// Namespace, if set, is one in which the caller may see pods. A relay asks for it, and agents do not.
	Namespace string
}

// Client is a Source as well: a relay serves what it gets.
var _ Source = Client{}

// Summary implements Source.
func (c Client) Summary(ctx context.Context, fresh bool) (*Summary, error) {
	v := url.Values{}
	if fresh {
		v.Set("fresh", "true")
	}
	if c.Namespace != "" {
		v.Set("namespace", c.Namespace)
	}
	return get[Summary](ctx, c, SummaryPath, v, maxSummary)
}

// Flows implements Source.
func (c Client) Flows(ctx context.Context, q Query) (*Flows, error) {
	return get[Flows](ctx, c, FlowsPath, q.Values(), maxAnswer)
}

// Why implements Source.
func (c Client) Why(ctx context.Context, id string) (*Why, error) {
	return get[Why](ctx, c, FlowsPath+"/"+url.PathEscape(id)+"/why", nil, maxWhy)
}

// The bytes of an answer, above which it is an error: a node that is broken, or not what it says, must not end a relay that asks many
// at a time.
const (
	maxSummary = 16 << 20  // of a node with 500 pods it is some 200 KiB
	maxWhy     = 16 << 20  // the rules of one flow
	maxAnswer  = 256 << 20 // far above MaxLimit flows with their rules
)

// errLarge is an answer beyond what was expected.
var errLarge = errors.New("the answer is too large")

// bounded reads up to a number of bytes, and then fails.
type bounded struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLarge
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func get[T any](ctx context.Context, c Client, path string, parameters url.Values, limit int64) (*T, error) {
	address := strings.TrimSuffix(c.URL, "/") + path
	if len(parameters) > 0 {
		address += "?" + parameters.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, unanswered(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body := &bounded{response.Body, limit}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, ErrNoFlow
	default:
		text, _ := io.ReadAll(io.LimitReader(body, 1<<10)) // the status says enough
		return nil, fmt.Errorf("asking %s: %s: %w", address, response.Status, Refused{response.StatusCode, strings.TrimSpace(string(text))})
	}
	out := new(T)
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	return out, nil
}

// unanswered is without the URL, which for an agent that is asked by a command in its pod is none of the network.
func unanswered(err error) error {
	var failed *url.Error
	switch {
	case !errors.As(err, &failed):
		return fmt.Errorf("asking an agent: %w", err)
	case failed.Timeout():
		return fmt.Errorf("the agent has not answered in time: %w", failed.Err)
	}
	return fmt.Errorf("asking an agent: %w", failed.Err)
}

// Socket is where the agent serves the API to root on its node.
const Socket = "/run/ovn-kubernetes/flows.sock"

// Local makes a client for a Unix socket.
func Local(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}
