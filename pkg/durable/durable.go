// Package durable writes small files so that a crash leaves the old or the new
// content, never a part. Checkpoints are such files: what they hold undoes what
// was done to the host.
//
// It is a package of its own because those who keep checkpoints, pkg/node and
// pkg/vf/setup, have nothing else in common. The ledger of VFs has a store of
// its own, with sums and a file for each claim.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile is atomic and durable: after it returns, a crash of the machine
// leaves the new content, before that the old or the new.
func WriteFile(path string, content []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil //nolint:nilerr // the file is there; its directory may not be readable
	}
	return errors.Join(dir.Sync(), dir.Close())
}
