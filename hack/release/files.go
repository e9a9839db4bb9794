package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// notes cuts the release notes out of the change log.
func (r *release) notes() error {
	text, err := os.ReadFile(filepath.Join(r.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes, err := section(string(text), strings.TrimPrefix(r.version, "v"))
	if err != nil {
		return err
	}
	return r.write("RELEASE_NOTES.md", notes)
}

// section gives the text of a version in a change log of https://keepachangelog.com.
func section(changelog, version string) (string, error) {
	var text strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		if strings.HasPrefix(line, "## [") || strings.HasPrefix(line, "[Unreleased]: ") {
			inside = strings.HasPrefix(line, "## ["+version+"]")
		} else if inside {
			text.WriteString(line)
		}
	}
	notes := strings.TrimSpace(text.String())
	if notes == "" {
		return "", fmt.Errorf("CHANGELOG.md has no text for a version [%s]", version)
	}
	return notes + "\n", nil
}

// checksums writes the file SHA256SUMS of a directory's other files, as sha256sum does.
func checksums(dir string) (err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for _, entry := range entries {
		if entry.Name() == "SHA256SUMS" {
			continue
		}
		sum, err := fileSum(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%x  %s\n", sum, entry.Name())
	}
	return nil
}

func fileSum(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hash.Sum(nil), err
}
