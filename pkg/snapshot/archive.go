package snapshot

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The names in an archive. Below it, nodes/ and logs/ are for people.
const (
	summaryFile = "snapshot.json"
	objectsDir  = "objects/"
)

// Archive is a gzip-compressed tar file that is being written.
type Archive struct {
	zip   *gzip.Writer
	tar   *tar.Writer
	taken time.Time
	// through changes each file and its name; nil: nothing does.
	through Through
}

// Through gives a file of an archive in place of another.
type Through func(name string, content []byte) (string, []byte, error)

// NewArchive begins one, with the objects of a snapshot.
func NewArchive(w io.Writer, s *Snapshot) (*Archive, error) { return NewArchiveThrough(w, s, nil) }

// NewArchiveThrough begins one whose files are changed.
func NewArchiveThrough(w io.Writer, s *Snapshot, through Through) (*Archive, error) {
	zip := gzip.NewWriter(w)
	a := &Archive{zip: zip, tar: tar.NewWriter(zip), taken: s.Taken, through: through}
	if err := a.json(summaryFile, s); err != nil {
		return nil, err
	}
	for _, r := range All() {
		if err := a.json(objectsDir+string(r)+".json", s.objects[r]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *Archive) json(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return a.Add(name, text)
}

// Add writes one more file.
func (a *Archive) Add(name string, content []byte) (err error) {
	if a.through != nil {
		if name, content, err = a.through(name, content); err != nil {
			return err
		}
	}
	header := &tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600, ModTime: a.taken, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = a.tar.Write(content)
	return err
}

// Close ends the archive.
func (a *Archive) Close() error { return errors.Join(a.tar.Close(), a.zip.Close()) }

// maxFile bounds what is read from one file of an archive.
const maxFile = 1 << 30

// Open reads the snapshot of an archive.
func Open(r io.Reader) (*Snapshot, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Known: Known{}, objects: map[Resource][]*Object{}}
	for files := tar.NewReader(zip); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := s.file(header.Name, io.LimitReader(files, maxFile)); err != nil {
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	if s.Taken.IsZero() {
		return nil, errors.New("it has no " + summaryFile + ": it is no archive of kubectl offload sysdump")
	}
	s.Sort()
	return s, nil
}

func (s *Snapshot) file(name string, r io.Reader) error {
	if name == summaryFile {
		return json.NewDecoder(r).Decode(s)
	}
	if strings.HasPrefix(name, flowsDir) {
		return s.readFlows(r)
	}
	if resource, ok := strings.CutPrefix(name, objectsDir); ok {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		var objects []map[string]any
		if err := utiljson.Unmarshal(text, &objects); err != nil { // whole numbers stay whole, as from the API server
			return err
		}
		of := Resource(strings.TrimSuffix(resource, ".json"))
		s.Known[of] = true
		for _, fields := range objects {
			s.AddTrimmed(of, fields)
		}
	}
	return nil
}
