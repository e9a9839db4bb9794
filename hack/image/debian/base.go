// Package debian makes the layer of the image that Debian provides: OVS, OVN and what an operator needs beside them, by
// mmdebstrap. The versions of OVS and OVN are those of pins.txt: a base with others is an error. The layer is kept by
// its package list and by the week, so that security updates arrive.
package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DefaultSuite is the suite that releases are made of.
const DefaultSuite = "trixie"

// epoch is the time of all newer files in a base, so that a later build of the same packages is the same.
var epoch = time.Date(2025, 8, 9, 0, 0, 0, 0, time.UTC)

// Base is the base layer for one architecture.
type Base struct {
	Suite, Arch string
	Packages    []string
	excluded    []string  // paths that dpkg does not unpack
	week        time.Time // the Monday that the cache entry stands for
}

// NewBase gives the base of the product's image: of a suite of Debian, for a GOARCH, made now.
func NewBase(suite, arch string, now time.Time) Base {
	day := now.UTC().Truncate(24 * time.Hour)
	return Base{
		Suite: suite,
		Arch:  arch,
		Packages: []string{
			"openvswitch-switch", "ovn-central", "ovn-host",
			"bash", "ca-certificates", "conntrack", "ethtool", "iproute2", "iputils-ping", "kmod", "nftables", "pci.ids", "procps", "tcpdump",
		},
		// Licences (doc/*/copyright) stay.
		excluded: []string{"/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*/changelog*", "/usr/share/bash-completion/*"},
		week:     day.AddDate(0, 0, -(int(day.Weekday())+6)%7),
	}
}

func (b Base) key() string {
	pins, _ := pinsOf(pinsText, b.Suite) // Ensure reports the error
	sum := sha256.Sum256(fmt.Append(nil, b.Suite, b.Arch, b.Packages, b.excluded, b.week.Unix(), epoch.Unix(), pins))
	return hex.EncodeToString(sum[:6])
}

// Ensure gives the path of the layer in a cache, or makes it first. Each layer of the cache has the pinned versions.
func (b Base) Ensure(ctx context.Context, cache string) (string, error) {
	path := filepath.Join(cache, "base-"+b.key()+".tar")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	pins, err := pinsOf(pinsText, b.Suite)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	layer := filepath.Join(dir, "layer.tar")
	if err := b.bootstrap(ctx, layer); err != nil {
		return "", err
	}
	if err := checkPins(layer, pins); err != nil {
		return "", err
	}
	if err := os.Rename(layer, path); err != nil {
		return "", err
	}
	prune(cache, path)
	return path, nil
}

func (b Base) bootstrap(ctx context.Context, out string) error {
	if os.Geteuid() != 0 {
		return errors.New("making it needs root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return errors.New("making it needs mmdebstrap: hack/packages mmdebstrap")
	}
	args := []string{"--variant=minbase", "--format=tar", "--skip=output/dev", "--architectures=" + debianArch(b.Arch),
		"--include=" + strings.Join(b.Packages, ",")}
	for _, path := range b.excluded {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	if b.Suite != DefaultSuite { // pins.txt asks for versions that only a mirror of some day has; its signature holds
		args = append(args, `--aptopt=Acquire::Check-Valid-Until "false"`)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, b.Suite, out)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(epoch.Unix(), 10))
	if log, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap %s: %w\n%s", b.Suite, err, log)
	}
	return nil
}

func debianArch(goarch string) string {
	if goarch == "arm" {
		return "armhf"
	}
	return goarch // amd64, arm64, riscv64, s390x: the same word
}

// prune removes entries that no build has made for a month.
func prune(cache, keep string) {
	old, _ := filepath.Glob(filepath.Join(cache, "base-*.tar"))
	for _, path := range old {
		if st, err := os.Stat(path); err == nil && path != keep && time.Since(st.ModTime()) > 30*24*time.Hour {
			_ = os.Remove(path)
		}
	}
}
