// Package durable writes small files so that a crash leaves the old or the new
// content, never a part. Checkpoints are such files: what they hold undoes what
// was done to the host.
//
// It is the only writer of the files that a process finds again when it starts:
// checkpoints of pkg/node and pkg/vf/setup, the ledger of VFs, device information.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewPrefix begins the names of files that are not yet in place. A crash leaves them
// behind, and they mean nothing.
const NewPrefix = ".new-"

// Writer writes files step by step.
type Writer struct {
	// Step is called before each step that a crash can come before; nil outside tests.
	// After an error nothing is tidied up, as after a crash.
	Step func(name string) error
}

// WriteFile is atomic and durable: after it returns, a crash of the machine
// leaves the new content, before that the old or the new.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	return Writer{}.WriteFile(path, content, mode)
}

// WriteFile is the function of that name.
func (w Writer) WriteFile(path string, content []byte, mode os.FileMode) error {
	if err := w.step("create"); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), NewPrefix+"*")
	if err != nil {
		return err
	}
	err = errors.Join(w.fill(f, content), f.Chmod(mode), f.Close())
	if err == nil {
		err = w.Rename(f.Name(), path)
	}
	if err != nil && w.Step == nil {
		if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

func (w Writer) fill(f *os.File, content []byte) error {
	// Two writes: a crash between them is a crash in the midst of one.
	for _, part := range [][]byte{content[:len(content)/2], content[len(content)/2:]} {
		if err := w.step("write"); err != nil {
			return err
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	if err := w.step("sync"); err != nil {
		return err
	}
	return f.Sync()
}

// Rename gives a file another name in the same directory.
func (w Writer) Rename(from, to string) error {
	if err := w.step("rename"); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return w.syncDir(filepath.Dir(to))
}

// Remove removes a file; one that is absent is removed already.
func (w Writer) Remove(path string) error {
	if err := w.step("remove"); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.syncDir(filepath.Dir(path))
}

func (w Writer) syncDir(path string) error {
	if err := w.step("sync directory"); err != nil {
		return err
	}
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // the file is there; its directory may not be readable
	}
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (w Writer) step(name string) error {
	if w.Step == nil {
		return nil
	}
	return w.Step(name)
}

// Save writes a checkpoint as JSON, for root only, and makes its directory.
func Save(path string, checkpoint any) error {
	raw, err := json.MarshalIndent(checkpoint, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = WriteFile(path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing checkpoint: %w", err)
	}
	return nil
}

// Load reads a checkpoint and reports whether there is one.
func Load(path string, into any) (found bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return false, fmt.Errorf("reading checkpoint %s: %w", path, err)
	}
	return true, nil
}
