package cnifiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/fsnotify/fsnotify"
)

// FollowFormer removes the file that is no list when no other file names it any more, and returns then. Multus removes
// its configuration when it ends, and makes another one, of the first file that it finds, when it starts again: the
// event comes between both.
func (d Dir) FollowFormer(ctx context.Context, log *slog.Logger) {
	if !d.Managed {
		return
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }()
		err = watcher.Add(d.Path)
	}
	for err == nil {
		var named string
		if named, err = d.removeFormer(); named == "" {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-watcher.Events:
		case err = <-watcher.Errors:
		}
	}
	if err != nil {
		log.Warn("the former CNI configuration is not followed", "error", err)
	}
}

var namesFormer = regexp.MustCompile(regexp.QuoteMeta(formerName) + `\b`) //nolint:gochecknoglobals // constant

// removeFormer removes the file that is no list, which the runtime would read before the list. The file stays while
// another one names it, as the configuration that Multus makes of the first file it finds: Multus could give pods no
// network without it.
func (d Dir) removeFormer() (named string, err error) {
	path := filepath.Join(d.Path, formerName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return "", fmt.Errorf("looking for programs that use the former CNI configuration: %w", err)
	}
	for _, entry := range entries {
		if isConf(entry.Name()) && entry.Name() != formerName && d.mayNameFormer(entry.Name()) {
			return entry.Name(), nil
		}
	}
	if err := remove(path); err != nil {
		return "", fmt.Errorf("removing the former CNI configuration: %w", err)
	}
	return "", nil
}

// mayNameFormer is true of a file that is being written, too.
func (d Dir) mayNameFormer(name string) bool {
	text, err := os.ReadFile(filepath.Join(d.Path, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		return true
	}
	return namesFormer.Match(text) || !json.Valid(text) && IsBeforeOurs(name)
}
