package offload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// Running remembers with what other_config the ovs-vswitchd that runs now
// began: as it was when that instance was first seen. It is kept in a file, for
// the agent may start again and ovs-vswitchd not.
type Running struct {
	path string

	mu   sync.Mutex
	seen seen
}

type seen struct {
	Instance unixctl.Instance  `json:"instance"`
	Config   map[string]string `json:"otherConfig"`
}

// LoadRunning reads the file, if there is one.
func LoadRunning(path string) (*Running, error) {
	r := &Running{path: path}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what ovs-vswitchd began with: %w", err)
	}
	if json.Unmarshal(raw, &r.seen) != nil {
		r.seen = seen{} // cut short by a crash: as if never seen
	}
	return r, nil
}

// Observe gives what is wanted and what runs. An error is of the file; what it
// gives is right all the same.
func (r *Running) Observe(now unixctl.Instance, config map[string]string) (Observed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	observed := func() Observed {
		return Observed{OtherConfig: config, Running: maps.Clone(r.seen.Config)}
	}
	if r.seen.Config != nil && r.seen.Instance.PID == now.PID && r.seen.Instance.Started.Equal(now.Started) {
		return observed(), nil
	}
	r.seen = seen{Instance: now, Config: maps.Clone(config)}
	if r.seen.Config == nil {
		r.seen.Config = map[string]string{}
	}
	err := durable.Save(r.path, r.seen)
	if err != nil {
		err = fmt.Errorf("recording what ovs-vswitchd began with: %w", err)
	}
	return observed(), err
}
