package debian

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// Package is an installed package of Debian.
type Package struct {
	Name, Version, Arch string
	Maintainer          string
	Homepage            string
}

// Installed gives the packages in the dpkg status of a base layer, in its order.
func Installed(layer string) ([]Package, error) {
	file, err := os.Open(layer)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s has no file var/lib/dpkg/status", layer)
		}
		if err != nil {
			return nil, err
		}
		if path.Clean(h.Name) == "var/lib/dpkg/status" {
			return readStatus(r)
		}
	}
}

func readStatus(status io.Reader) ([]Package, error) {
	var packages []Package
	var current Package
	installed := false
	end := func() {
		if installed {
			packages = append(packages, current)
		}
		current, installed = Package{}, false
	}
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "":
			end()
		case "Package":
			current.Name = value
		case "Status":
			installed = value == "install ok installed"
		case "Version":
			current.Version = value
		case "Architecture":
			current.Arch = value
		case "Maintainer":
			current.Maintainer = value
		case "Homepage":
			current.Homepage = value
		}
	}
	end()
	return packages, lines.Err()
}
