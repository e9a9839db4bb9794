package raft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
)

// files are those of one database on this node.
type files struct{ path, schema string }

func (f files) starts() string { return f.path + ".starts" }

// Inspect reads what the disk has of a database. An empty file counts as missing: a crash leaves it behind.
func Inspect(ctx context.Context, path string) (File, error) {
	stat, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && stat.Size() == 0 {
		return File{Kind: Missing}, nil
	}
	if err != nil {
		return File{}, err
	}
	var file File
	switch _, err := tool(ctx, "db-is-clustered", path); {
	case err == nil:
		file.Kind = Clustered
	case exitCode(err) == 2:
		file.Kind = Standalone
	default:
		file.Kind = Unreadable
	}
	if file.Kind != Clustered {
		return file, nil
	}
	if file.Server, err = tool(ctx, "db-sid", path); err != nil {
		return File{Kind: Unreadable}, nil //nolint:nilerr // the kind says it
	}
	if file.Cluster, err = tool(ctx, "db-cid", path); err != nil && exitCode(err) != 2 {
		return File{Kind: Unreadable}, nil
	}
	starts, err := os.ReadFile(path + ".starts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return File{}, err
	}
	file.Starts = strings.Fields(string(starts))
	return file, nil
}

// create makes the first member of a new cluster, with the content that the file has.
func (f files) create(ctx context.Context, kind Kind, address string, election time.Duration) error {
	source, made := f.schema, f.path+".new"
	switch kind {
	case Standalone:
		source = f.path
	case Clustered:
		source = f.path + ".standalone"
		if err := remove(source); err != nil {
			return err
		}
		if _, err := tool(ctx, "cluster-to-standalone", source, f.path); err != nil {
			return err
		}
		defer func() { _ = remove(source) }() // the next start makes it anew
	case Missing, Unreadable:
	}
	if err := remove(made); err != nil {
		return err
	}
	if _, err := tool(ctx, fmt.Sprintf("--election-timer=%d", election.Milliseconds()), "create-cluster", made, source, address); err != nil {
		return err
	}
	return f.replace(kind, made)
}

// join makes a member that asks to be added to a cluster when it starts.
func (f files) join(ctx context.Context, kind Kind, cluster, address string, remotes []string) error {
	name, err := tool(ctx, "schema-name", f.schema)
	if err != nil {
		return err
	}
	made := f.path + ".new"
	if err := remove(made); err != nil {
		return err
	}
	args := append([]string{"--cid=" + cluster, "join-cluster", made, name, address}, remotes...)
	if _, err := tool(ctx, args...); err != nil {
		return err
	}
	return f.replace(kind, made)
}

// replace sets the former file aside and puts the new one in its place. One former file is kept.
func (f files) replace(kind Kind, made string) error {
	if kind != Missing {
		if err := os.Rename(f.path, f.path+".former"); err != nil {
			return err
		}
	}
	if err := os.Rename(made, f.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func (f files) writeStarts(starts ...string) error {
	return durable.WriteFile(f.starts(), []byte(strings.Join(starts, "\n")+"\n"), 0o600)
}

// lock fails while an ovsdb-server has the database open. The lock is ovsdb-server's own.
func (f files) lock() (unlock func(), err error) {
	name := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".~lock~")
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		file.Close()
		return nil, fmt.Errorf("another server has %s open: %w", f.path, err)
	}
	return func() { file.Close() }, nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// tool runs ovsdb-tool, which alone knows the format of the files. It runs once, before the server.
func tool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "ovsdb-tool", args...) //nolint:forbidigo // see above
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ovsdb-tool %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
