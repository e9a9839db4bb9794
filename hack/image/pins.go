package main

import (
	"archive/tar"
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed pins.txt
var pinsText string

var rebuild = regexp.MustCompile(`\+b[0-9]+$`)

// pinsOf gives the version of each package that text pins in a suite of Debian.
func pinsOf(text, suite string) (map[string]string, error) {
	pins := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("pins.txt: %q is not a suite, a package and a version", strings.TrimSpace(line))
		}
		if fields[0] == suite {
			pins[fields[1]] = fields[2]
		}
	}
	if len(pins) == 0 {
		return nil, fmt.Errorf("pins.txt has no versions of OVS and OVN for Debian %s", suite)
	}
	return pins, nil
}

// checkPins compares the packages of a base layer with their pinned versions.
func checkPins(layer string, pins map[string]string) error {
	installed, err := installedPackages(layer)
	if err != nil {
		return fmt.Errorf("reading the packages of the base layer: %w", err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		version, ok := installed[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("package %s %s is not installed", name, pins[name]))
		case rebuild.ReplaceAllString(version, "") != pins[name]:
			errs = append(errs, fmt.Errorf("package %s has version %s, and hack/image/pins.txt has %s", name, version, pins[name]))
		}
	}
	return errors.Join(errs...)
}

// installedPackages gives the version of each package in the dpkg status of a base layer.
func installedPackages(layer string) (map[string]string, error) {
	f, err := os.Open(layer)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("no file var/lib/dpkg/status")
		}
		if err != nil {
			return nil, err
		}
		if path.Clean(h.Name) == "var/lib/dpkg/status" {
			return dpkgVersions(r)
		}
	}
}

func dpkgVersions(status io.Reader) (map[string]string, error) {
	versions := map[string]string{}
	name, installed := "", false
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "":
			name, installed = "", false
		case "Package":
			name = value
		case "Status":
			installed = value == "install ok installed"
		case "Version":
			if installed {
				versions[name] = value
			}
		}
	}
	return versions, lines.Err()
}
