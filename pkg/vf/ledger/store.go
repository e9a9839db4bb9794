package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
)

// The names in the directory; devices have none of these endings.
const (
	recordEnd  = ".json"
	damagedEnd = ".damaged" // blocks its device
	shelfEnd   = ".old"     // a damaged record of the past, for people
	newEnd     = ".new"     // of an earlier version, not yet in place: of no meaning
	lockName   = ".lock"
	bootName   = ".boot" // the boot id of who opened it last
)

// record is a file's content. Sum is over Claim's bytes as they are.
type record struct {
	Version int             `json:"version"`
	Sum     uint32          `json:"sum"`
	Claim   json.RawMessage `json:"claim"`
}

const version = 1

// store keeps one file per device. step is called before each step that a
// crash can come before; tests let it fail there, and nothing is tidied up.
type store struct {
	dir  string
	step func(name string) error
	held *os.File
}

// lock refuses a second process, such as the next version of the agent while
// the last one still works.
func (s *store) lock() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("locking it, which another process may have done: %w", err), f.Close())
	}
	s.held = f
	return nil
}

func (s *store) unlock() error { return s.held.Close() }

// nextBoot reports whether the machine was started since the directory was last
// opened. Where that cannot be recorded it is as if it was not.
func (s *store) nextBoot(boot string) bool {
	file := filepath.Join(s.dir, bootName)
	last, err := os.ReadFile(file)
	if boot == "" || string(last) == boot {
		return false
	}
	known := err == nil
	return durable.WriteFile(file, []byte(boot), 0o600) == nil && known
}

func (s *store) path(device, end string) string { return filepath.Join(s.dir, device+end) }

// load gives the good claims, and why the others are not. Damaged files get
// another name, so that nothing overwrites them.
func (s *store) load() ([]Claim, map[string]error, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, err
	}
	var claims []Claim
	damaged := map[string]error{}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, durable.NewPrefix), strings.HasSuffix(name, newEnd):
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				return nil, nil, err
			}
		case strings.HasSuffix(name, damagedEnd):
			device := strings.TrimSuffix(name, damagedEnd)
			damaged[device] = s.blocked(device, errors.New("found so at an earlier start"))
		case strings.HasSuffix(name, recordEnd):
			device := strings.TrimSuffix(name, recordEnd)
			c, reason, err := s.read(device)
			if err != nil {
				return nil, nil, err
			}
			if reason == nil {
				claims = append(claims, c)
				continue
			}
			if err := s.files().Rename(s.path(device, recordEnd), s.path(device, damagedEnd)); err != nil {
				return nil, nil, fmt.Errorf("putting a damaged record aside: %w", err)
			}
			damaged[device] = s.blocked(device, reason)
		}
	}
	return claims, damaged, nil
}

func (s *store) blocked(device string, reason error) error {
	return fmt.Errorf("%w: %s: %w", ErrDamaged, s.path(device, damagedEnd), reason)
}

// read gives a reason for a damaged record, which blocks one device, and an error for a disk that cannot be read, which
// blocks all.
func (s *store) read(device string) (c Claim, reason, err error) {
	raw, err := os.ReadFile(s.path(device, recordEnd))
	if err != nil {
		return c, nil, err
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return c, err, nil
	}
	switch {
	case r.Version > version:
		// A newer agent wrote it and nothing is wrong with it: going back must
		// wait for that agent's pods, not shelve what it knows.
		return c, nil, fmt.Errorf("%s has version %d, this agent knows %d", s.path(device, recordEnd), r.Version, version)
	case crc32.ChecksumIEEE(r.Claim) != r.Sum:
		return c, errors.New("its sum is wrong"), nil
	}
	if err := json.Unmarshal(r.Claim, &c); err != nil {
		return c, err, nil
	}
	if c.Device != device || c.Sandbox == "" {
		return c, fmt.Errorf("it is of device %q, sandbox %q", c.Device, c.Sandbox), nil
	}
	return c, nil, nil
}

// write is atomic and durable: after a crash there is the old or the new
// record, and once it has returned, the new one.
func (s *store) write(c Claim) error {
	if c.Device == "" || c.Device[0] == '.' || strings.ContainsAny(c.Device, "/\x00") {
		return fmt.Errorf("%q is no device", c.Device)
	}
	claim, err := json.Marshal(c)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(record{Version: version, Sum: crc32.ChecksumIEEE(claim), Claim: claim})
	if err != nil {
		return err
	}
	return s.files().WriteFile(s.path(c.Device, recordEnd), raw, 0o600)
}

func (s *store) files() durable.Writer { return durable.Writer{Step: s.step} }

// remove of a record that is not there is done already.
func (s *store) remove(device string) error { return s.files().Remove(s.path(device, recordEnd)) }

// shelve keeps a damaged record under a name that was not used before.
func (s *store) shelve(device string) error {
	for n := 1; ; n++ {
		to := s.path(device, fmt.Sprintf(".%d%s", n, shelfEnd))
		_, err := os.Lstat(to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return s.files().Rename(s.path(device, damagedEnd), to)
		case err != nil:
			return err
		}
	}
}
