package flownames

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// Path is that of the API, and MaxCookies bounds a request.
const (
	Path       = "/v1/names"
	MaxCookies = 4000
)

// What a caller has to have: a token for the audience, of an account that may get the resource.
const (
	Audience = "ovn-offload-names"
	Resource = "flownames"
)

// LeaseKey is the annotation by which the leading controller says where it serves the API, as an Endpoint.
const LeaseKey = "ovn-offload.io/flow-names"

// Endpoint is an address, HOST:PORT, and the SHA-256 of the certificate there.
type Endpoint struct {
	Address     string `json:"address"`
	Fingerprint string `json:"fingerprint"`
}

// request and answer are the bodies of the API.
type request struct {
	Cookies []uint64 `json:"cookies"`
}

type answer struct {
	Names map[uint64]flowapi.Name `json:"names"`
}

// maxRequest is far above MaxCookies numbers, and maxAnswer above their names.
const (
	maxRequest = 1 << 17
	maxAnswer  = 16 << 20
)

// Handler serves an Asker. It does not ask who the caller is: see expose.Guard.
//
//	POST /v1/names {"cookies": [3229229776]}
func Handler(from Asker, registry prometheus.Registerer) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ovn_offload_flow_names_requests_total", Help: "Requests for the names of flows, by the status of the answer.",
	}, []string{"code"})
	registry.MustRegister(requests)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, r *http.Request) {
		code, body := serve(from, r)
		requests.WithLabelValues(strconv.Itoa(code)).Inc()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body) // the caller is gone
	})
	return mux
}

func serve(from Asker, r *http.Request) (code int, body any) {
	failed := func(code int, err error) (int, any) { return code, map[string]string{"error": err.Error()} }
	var asked request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&asked); err != nil {
		return failed(http.StatusBadRequest, fmt.Errorf("reading the request: %w", err))
	}
	if len(asked.Cookies) > MaxCookies {
		return failed(http.StatusBadRequest, fmt.Errorf("%d cookies, at most %d", len(asked.Cookies), MaxCookies))
	}
	names, err := from.Names(r.Context(), asked.Cookies)
	if err != nil {
		return failed(http.StatusServiceUnavailable, err)
	}
	return http.StatusOK, answer{names}
}

// Client is an Asker.
type Client struct {
	// URL is that of the leading controller, such as https://192.0.2.7:9413.
	URL string
	// HTTP has the token, and checks the certificate.
	HTTP *http.Client
}

// Names implements Asker.
func (c Client) Names(ctx context.Context, cookies []uint64) (map[uint64]flowapi.Name, error) {
	body, err := json.Marshal(request{cookies})
	if err != nil {
		return nil, err
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(asked)
	if err != nil {
		return nil, fmt.Errorf("asking for names: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status says enough
		return nil, fmt.Errorf("asking for names: %s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	var got answer
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&got); err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	return got.Names, nil
}
