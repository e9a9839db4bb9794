package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Cache is where things that are expensive to make are kept.
type Cache struct {
	Dir  string
	Repo string // the repository's root
	Say  func(format string, args ...any)
}

// DefaultDir is in the user's cache directory.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache directory: %w", err)
	}
	return filepath.Join(dir, "ovn-offload"), nil
}

// once gives the cached path for kind and key; it is made by fill if it is not there.
func (c *Cache) once(ctx context.Context, kind, key string, fill func(ctx context.Context, path string) error) (string, error) {
	path := filepath.Join(c.Dir, kind+"-"+key)
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, kind+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	if exists(path) { // another process has made it meanwhile
		return path, nil
	}
	partial := path + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := fill(ctx, partial); err != nil {
		return "", err
	}
	if err := os.Rename(partial, path); err != nil {
		return "", err
	}
	// Hundreds of MB that are written out later would hold up the first pods.
	return path, flush(c.Dir)
}

// Fill makes everything that takes minutes, for the bench first and then for the lab.
func (c *Cache) Fill(ctx context.Context) error {
	if err := errors.Join(c.BenchPackages(ctx, DefaultPlatform()), c.Packages(ctx)); err != nil {
		return err
	}
	if _, err := c.Kernel(ctx, DefaultPlatform()); err != nil {
		return err
	}
	if _, err := c.BenchRoot(ctx); err != nil {
		return err
	}
	return c.FillLab(ctx)
}

// FillLab makes what takes minutes for a lab: programs, and beside the compilers the root file systems.
func (c *Cache) FillLab(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, chain := range [][]func(context.Context) (string, error){{c.Kubernetes, c.CoreDNS}, {c.NodeRoot, c.toolsLayer, c.productBase}} {
		group.Go(func() error {
			for _, make := range chain {
				if _, err := make(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func flush(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Syncfs(int(file.Fd()))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hash is short: a name, not a proof.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func hashFiles(files ...string) (string, error) {
	slices.Sort(files)
	var parts []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		parts = append(parts, filepath.Base(file), string(data))
	}
	return hash(parts...), nil
}

// Recent makes a thing that goes out of use quickly: the newest and the one before are kept.
func (c *Cache) Recent(ctx context.Context, kind, key string, fill func(ctx context.Context, path string) error) (string, error) {
	return c.once(ctx, kind, hash(key), func(ctx context.Context, path string) error {
		old, err := filepath.Glob(filepath.Join(c.Dir, kind+"-*"))
		if err != nil {
			return err
		}
		slices.SortFunc(old, func(a, b string) int { return modified(a).Compare(modified(b)) })
		for _, dir := range old[:max(0, len(old)-1)] {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
		return fill(ctx, path)
	})
}

func modified(path string) time.Time {
	stat, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return stat.ModTime()
}
