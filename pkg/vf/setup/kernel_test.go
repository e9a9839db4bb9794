package setup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// slowNIC answers a change late, and tells its mode when the change has ended; "" is no answer.
type slowNIC struct {
	answer error
	modes  []string
}

func (s *slowNIC) SetEswitchMode(string, string) error { return s.answer }
func (*slowNIC) SetHWTC(string, bool) error            { return nil }
func (s *slowNIC) Eswitch(string) (netdev.Eswitch, error) {
	mode := s.modes[0]
	if len(s.modes) > 1 {
		s.modes = s.modes[1:]
	}
	if mode == "" {
		return netdev.Eswitch{}, unix.EAGAIN
	}
	return netdev.Eswitch{Mode: mode}, nil
}

// TestKernel_SlowChangeIsAwaited: the socket waits for a minute, and the kernel goes on with the change.
func TestKernel_SlowChangeIsAwaited(t *testing.T) {
	late := fmt.Errorf("setting the eswitch: %w", unix.EAGAIN)
	for name, tt := range map[string]struct {
		nic  slowNIC
		want error
	}{
		"made in time":            {slowNIC{nil, []string{""}}, nil},
		"refused":                 {slowNIC{unix.EOPNOTSUPP, []string{"switchdev"}}, unix.EOPNOTSUPP},
		"made late":               {slowNIC{late, []string{"", "", "switchdev"}}, nil},
		"failed late":             {slowNIC{late, []string{"", "legacy", "switchdev"}}, unix.EAGAIN},
		"still not known at last": {slowNIC{late, []string{""}}, unix.EAGAIN},
	} {
		t.Run(name, func(t *testing.T) {
			k := Kernel{Devices: &tt.nic, timeout: 20 * time.Millisecond, pause: time.Millisecond}
			if err := k.SetEswitchMode("0000:03:00.0", "switchdev"); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}
