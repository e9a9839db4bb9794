package build

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Names of the lab's own images.
const (
	PauseImage = "lab-pause:dev"
	ToolsImage = "lab-tools:dev"
	DNSImage   = "lab-coredns:dev"
)

// Pause makes the image of pod sandboxes from the program pause in bin.
func (c *Cache) Pause(bin, out string) error {
	return ProgramImage(PauseImage, "pause", filepath.Join(bin, "pause"), out)
}

// ProgramImage makes an image of one program, which is all that is in it.
func ProgramImage(tag, name, program, out string) error {
	layer := out + ".layer"
	defer func() { _ = os.Remove(layer) }()
	if err := fileLayer(layer, name, program); err != nil {
		return err
	}
	return archive(out, tag, []string{"/" + name}, layer)
}

// TestImage makes the image of test workloads: Debian's network tools, and probe from bin.
func (c *Cache) TestImage(ctx context.Context, bin, out string) error {
	base, err := c.toolsLayer(ctx)
	if err != nil {
		return err
	}
	layer := out + ".layer"
	defer func() { _ = os.Remove(layer) }()
	if err := fileLayer(layer, "usr/local/bin/probe", filepath.Join(bin, "probe")); err != nil {
		return err
	}
	return archive(out, ToolsImage, []string{"sleep", "infinity"}, base, layer)
}

// fileLayer is an image layer with one program.
func fileLayer(out, name, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// archive writes an image as `docker save` does, which containerd imports.
func archive(out, tag string, command []string, layers ...string) error {
	file, err := os.Create(out + ".partial")
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	var diffs, names []string
	for i, layer := range layers {
		digest, err := digestOf(layer)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("layer%d.tar", i)
		diffs, names = append(diffs, "sha256:"+digest), append(names, name)
		if err := addFile(w, name, layer); err != nil {
			return fmt.Errorf("adding %s: %w", layer, err)
		}
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": command, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{tag}, "Layers": names}})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"config.json": config, "manifest.json": manifest} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), out)
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addFile(w *tar.Writer, name, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: stat.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}

// Fingerprint identifies an archive's content: the hash of its configuration,
// which names every layer by digest.
func Fingerprint(archive string) (string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var parts []string
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", archive, err)
		}
		if !strings.HasSuffix(header.Name, ".json") {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("reading %s: it is no image archive", archive)
	}
	slices.Sort(parts)
	return hash(parts...), nil
}
