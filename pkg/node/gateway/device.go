package gateway

import (
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/node/device"
)

// follow gives the checkpoint the name that its uplink has now.
func (s *State) follow() {
	if s.Saved == nil {
		return
	}
	name, err := s.Saved.Find(s.State, device.Traits{MAC: s.Saved.MAC, Addresses: s.Saved.Addresses, Others: s.Eswitch.Functions})
	if err != nil || name == s.Saved.Interface {
		s.Lost = err
		return
	}
	c := s.Saved.clone()
	c.Sysctls = map[string]string{}
	for key, value := range s.Saved.Sysctls {
		c.Sysctls[strings.Replace(key, "/"+c.Interface+"/", "/"+name+"/", 1)] = value
	}
	c.Identity = c.Renamed(name)
	s.Saved, s.Renamed = &c, true
}
