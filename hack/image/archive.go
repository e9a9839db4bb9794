package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeProductLayer writes the layer that lies on the base: the tree under
// rootfs, and the named binaries from bins. Owners and times are zeroed, so
// that equal content gives an equal digest.
func writeProductLayer(out, rootfs, bins string, names []string) (layer, error) {
	f, err := os.Create(out)
	if err != nil {
		return layer{}, err
	}
	defer f.Close()
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, sum))
	err = filepath.WalkDir(rootfs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(rootfs, path)
		if err != nil {
			return err
		}
		return addFile(w, rel, path)
	})
	for _, name := range names {
		if err == nil {
			err = addFile(w, "usr/local/bin/"+name, filepath.Join(bins, name))
		}
	}
	if err != nil {
		return layer{}, err
	}
	if err := w.Close(); err != nil {
		return layer{}, err
	}
	return layer{out, hex.EncodeToString(sum.Sum(nil))}, f.Close()
}

func addFile(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if st.Mode()&0o111 != 0 {
		mode = 0o755
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: st.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

type (
	archiveEntry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	imageConfig struct {
		Architecture string      `json:"architecture"`
		OS           string      `json:"os"`
		Config       imageRun    `json:"config"`
		RootFS       imageRootFS `json:"rootfs"`
	}
	imageRun struct {
		Env    []string          `json:"Env"`
		Labels map[string]string `json:"Labels"`
	}
	imageRootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
)

// writeArchive joins layers into o.out, in the format of "docker save".
func writeArchive(o options, layers ...layer) error {
	config := imageConfig{Architecture: o.arch, OS: "linux", RootFS: imageRootFS{Type: "layers"}, Config: imageRun{
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{"org.opencontainers.image.version": o.version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}}
	entry := archiveEntry{RepoTags: []string{o.tag}}
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, "sha256:"+l.digest)
		entry.Layers = append(entry.Layers, l.digest+".tar")
	}
	configJSON, err := json.Marshal(config)
	if err != nil {
		return err
	}
	entry.Config = fmt.Sprintf("%x.json", sha256.Sum256(configJSON))
	manifest, err := json.Marshal([]archiveEntry{entry})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(o.out), ".image-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()
	w := tar.NewWriter(f)
	for i, l := range layers {
		if err := addFile(w, entry.Layers[i], l.path); err != nil {
			return err
		}
	}
	for name, content := range map[string][]byte{entry.Config: configJSON, "manifest.json": manifest} {
		if err := addBytes(w, name, content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(f.Name(), o.out)
}

func addBytes(w *tar.Writer, name string, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := io.Copy(w, bytes.NewReader(content))
	return err
}
