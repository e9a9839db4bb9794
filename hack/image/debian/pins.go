package debian

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
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

// Suites gives the suites that have pins.
func Suites() []string {
	var suites []string
	for line := range strings.Lines(pinsText) {
		if fields := strings.Fields(line); len(fields) == 3 && !strings.HasPrefix(line, "#") && !slices.Contains(suites, fields[0]) {
			suites = append(suites, fields[0])
		}
	}
	return suites
}

// checkPins compares the packages of a base layer with their pinned versions.
func checkPins(layer string, pins map[string]string) error {
	packages, err := Installed(layer)
	if err != nil {
		return fmt.Errorf("reading the packages of the base layer: %w", err)
	}
	versions := map[string]string{}
	for _, p := range packages {
		versions[p.Name] = p.Version
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		version, ok := versions[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("package %s %s is not installed", name, pins[name]))
		case rebuild.ReplaceAllString(version, "") != pins[name]:
			errs = append(errs, fmt.Errorf("package %s has version %s, and hack/image/debian/pins.txt has %s", name, version, pins[name]))
		}
	}
	return errors.Join(errs...)
}
