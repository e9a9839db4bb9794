package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// base is the part of the image that Debian provides.
type base struct {
	suite, arch string
	packages    []string
	excluded    []string  // paths that dpkg does not unpack
	week        time.Time // the Monday that the cache entry stands for
}

// layer is an uncompressed layer on disk; its digest is the image's diff id.
type layer struct {
	path, digest string
}

func defaultBase(arch string, now time.Time) base {
	day := now.UTC().Truncate(24 * time.Hour)
	return base{
		suite: "trixie",
		arch:  arch,
		packages: []string{
			"openvswitch-switch", "ovn-central", "ovn-host",
			"bash", "ca-certificates", "conntrack", "ethtool", "iproute2", "iputils-ping", "kmod", "nftables", "procps", "tcpdump",
		},
		// Licences (doc/*/copyright) stay.
		excluded: []string{"/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*/changelog*", "/usr/share/bash-completion/*"},
		week:     day.AddDate(0, 0, -(int(day.Weekday())+6)%7),
	}
}

func (b base) key() string {
	sum := sha256.Sum256(fmt.Append(nil, b.suite, b.arch, b.packages, b.excluded, b.week.Unix(), pinsText))
	return hex.EncodeToString(sum[:6])
}

// ensure gives the base layer from the cache, or makes it first. Each layer of the cache has the pinned versions.
func (b base) ensure(ctx context.Context, cache string) (layer, error) {
	path := filepath.Join(cache, "base-"+b.key()+".tar")
	digest, err := os.ReadFile(path + ".sha256")
	if _, statErr := os.Stat(path); err == nil && statErr == nil {
		return layer{path, string(digest)}, nil
	}
	pins, err := pinsOf(pinsText, b.suite)
	if err != nil {
		return layer{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return layer{}, err
	}
	tmp, err := os.CreateTemp(cache, "new-*.tar")
	if err != nil {
		return layer{}, err
	}
	tmp.Close()
	defer func() { _ = os.Remove(tmp.Name()) }()
	if err := b.bootstrap(ctx, tmp.Name()); err != nil {
		return layer{}, err
	}
	if err := checkPins(tmp.Name(), pins); err != nil {
		return layer{}, err
	}
	sum, err := fileDigest(tmp.Name())
	if err != nil {
		return layer{}, err
	}
	// The digest comes last: with it, the entry is complete.
	if err := os.Rename(tmp.Name(), path); err != nil {
		return layer{}, err
	}
	prune(cache, path)
	return layer{path, sum}, os.WriteFile(path+".sha256", []byte(sum), 0o644)
}

func (b base) bootstrap(ctx context.Context, out string) error {
	if os.Geteuid() != 0 {
		return errors.New("making it needs root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return errors.New("making it needs mmdebstrap: hack/packages mmdebstrap")
	}
	args := []string{"--variant=minbase", "--format=tar", "--skip=output/dev", "--architectures=" + debianArch(b.arch),
		"--include=" + strings.Join(b.packages, ",")}
	for _, path := range b.excluded {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, b.suite, out)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(b.week.Unix(), 10))
	if log, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap %s: %w\n%s", b.suite, err, log)
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
			_, _ = os.Remove(path+".sha256"), os.Remove(path)
		}
	}
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
