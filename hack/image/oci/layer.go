package oci

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// OpenLayer reads the digest of a tar archive without compression.
func OpenLayer(path string) (Layer, error) {
	file, err := os.Open(path)
	if err != nil {
		return Layer{}, err
	}
	defer file.Close()
	blob, err := describe(file, ocispec.MediaTypeImageLayer)
	return Layer{Path: path, Blob: blob, DiffID: blob.Digest}, err
}

// Compress writes a layer with gzip to a path.
func Compress(l Layer, path string) (Layer, error) {
	from, err := os.Open(l.Path)
	if err != nil {
		return Layer{}, err
	}
	defer from.Close()
	to, err := os.Create(path)
	if err != nil {
		return Layer{}, err
	}
	defer to.Close()
	zip := gzip.NewWriter(to)
	if _, err := io.Copy(zip, from); err != nil {
		return Layer{}, err
	}
	if err := zip.Close(); err != nil {
		return Layer{}, err
	}
	if _, err := to.Seek(0, io.SeekStart); err != nil {
		return Layer{}, err
	}
	blob, err := describe(to, ocispec.MediaTypeImageLayerGzip)
	return Layer{Path: path, Blob: blob, DiffID: l.DiffID}, err
}

func describe(content io.Reader, mediaType string) (ocispec.Descriptor, error) {
	digester := digest.Canonical.Digester()
	size, err := io.Copy(digester.Hash(), content)
	return ocispec.Descriptor{MediaType: mediaType, Digest: digester.Digest(), Size: size}, err
}

// Files writes a layer with the tree below a directory, and with the named programs of another in /usr/local/bin.
func Files(out, tree, programs string, names []string) (Layer, error) {
	file, err := os.Create(out)
	if err != nil {
		return Layer{}, err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		return addFile(w, name, path)
	})
	for _, name := range names {
		if err == nil {
			err = addFile(w, "usr/local/bin/"+name, filepath.Join(programs, name))
		}
	}
	if err != nil {
		return Layer{}, err
	}
	if err := w.Close(); err != nil {
		return Layer{}, err
	}
	if err := file.Close(); err != nil {
		return Layer{}, err
	}
	return OpenLayer(out)
}

func addFile(w *tar.Writer, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
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
	_, err = io.Copy(w, file)
	return err
}
