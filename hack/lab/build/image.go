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
	"maps"
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
	MultusName = "lab-multus:dev"
)

// image is one image of an archive.
type image struct {
	tag                 string
	entrypoint, command []string
	layers              []string // tar files, the lowest first
}

// Pause makes the image of pod sandboxes from the program pause in bin.
func (c *Cache) Pause(bin, out string) error {
	return ProgramImage(PauseImage, "pause", filepath.Join(bin, "pause"), out)
}

// ProgramImage makes an image of one program, which is all that is in it.
func ProgramImage(tag, name, program, out string) error {
	return programsImage(image{tag: tag, command: []string{"/" + name}}, map[string]string{name: program}, out)
}

// MultusImage makes an image with Multus' programs where its installer expects them.
func MultusImage(programs, out string) error {
	const dir = "usr/src/multus-cni/bin/"
	files := map[string]string{dir + "passthru": filepath.Join(programs, "passthru-cni")}
	for _, name := range []string{"multus-daemon", "multus-shim", "install_multus"} {
		files[dir+name] = filepath.Join(programs, name)
	}
	return programsImage(image{tag: MultusName, command: []string{"/" + dir + "multus-daemon"}}, files, out)
}

func programsImage(i image, files map[string]string, out string) error {
	layer := out + ".layer"
	defer func() { _ = os.Remove(layer) }()
	if err := fileLayer(layer, files); err != nil {
		return err
	}
	i.layers = []string{layer}
	return archive(out, i)
}

// TestImage makes the image of test workloads: Debian's network tools, and probe from bin.
func (c *Cache) TestImage(ctx context.Context, bin, out string) error {
	base, err := c.toolsLayer(ctx)
	if err != nil {
		return err
	}
	layer := out + ".layer"
	defer func() { _ = os.Remove(layer) }()
	if err := fileLayer(layer, map[string]string{"usr/local/bin/probe": filepath.Join(bin, "probe")}); err != nil {
		return err
	}
	return archive(out, image{tag: ToolsImage, command: []string{"sleep", "infinity"}, layers: []string{base, layer}})
}

// fileLayer writes an image layer of files: their names in the image, and where they are now.
func fileLayer(out string, files map[string]string) error {
	return layerOf(out, files, func(w *tar.Writer, name, from string) error {
		return addFile(w, &tar.Header{Name: name, Mode: 0o755}, from)
	})
}

// linkLayer writes an image layer of symbolic links: their names in the image, and where they lead.
func linkLayer(out string, links map[string]string) error {
	return layerOf(out, links, func(w *tar.Writer, name, to string) error {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777})
	})
}

// layerOf adds entries in the order of their names, so that the same entries give the same layer.
func layerOf(out string, entries map[string]string, add func(w *tar.Writer, name, value string) error) error {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := add(w, name, entries[name]); err != nil {
			return fmt.Errorf("adding %s: %w", entries[name], err)
		}
	}
	return w.Close()
}

// archive writes images as `docker save` does, which containerd imports. A layer of several images is written once.
func archive(out string, images ...image) error {
	file, err := os.Create(out + ".partial")
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	digests := map[string]string{} // by layer
	var manifest []map[string]any
	for i, m := range images {
		var diffs, names []string
		for _, layer := range m.layers {
			digest, written := digests[layer]
			if !written {
				if digest, err = digestOf(layer); err != nil {
					return err
				}
				digests[layer] = digest
				if err := addFile(w, &tar.Header{Name: digest + ".tar", Mode: 0o644}, layer); err != nil {
					return fmt.Errorf("adding %s: %w", layer, err)
				}
			}
			diffs, names = append(diffs, "sha256:"+digest), append(names, digest+".tar")
		}
		config := fmt.Sprintf("config%d.json", i)
		if err := addJSON(w, config, map[string]any{
			"architecture": runtime.GOARCH, "os": "linux",
			"config": map[string]any{"Entrypoint": m.entrypoint, "Cmd": m.command, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
		}); err != nil {
			return err
		}
		manifest = append(manifest, map[string]any{"Config": config, "RepoTags": []string{m.tag}, "Layers": names})
	}
	if err := errors.Join(addJSON(w, "manifest.json", manifest), w.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), out)
}

func addJSON(w *tar.Writer, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
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

// addFile writes a file under the header, to which it gives the size.
func addFile(w *tar.Writer, header *tar.Header, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size = stat.Size()
	if err := w.WriteHeader(header); err != nil {
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
