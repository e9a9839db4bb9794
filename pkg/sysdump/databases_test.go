package sysdump

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestDatabaseCopy_IsOneThatAServerReads, with the programs of the image. Of a server that does not answer, and of a large file,
// there is no copy.
func TestDatabaseCopy_IsOneThatAServerReads(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"worker"}}`)
	dir := t.TempDir()
	database := filepath.Join(dir, "ovnnb_db.db")
	programs, err := filepath.Abs("../../hack/image/rootfs/usr/local/bin")
	if err == nil {
		err = os.Symlink(strings.TrimPrefix(server.Endpoint(), "unix:"), filepath.Join(dir, "ovnnb_db.sock"))
	}
	if err == nil {
		err = os.WriteFile(database, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func() (out, errs bytes.Buffer, err error) {
		args := copyOf("nb", "northbound.db.gz").args
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "OVN_RUNDIR="+dir, "OVN_DBDIR="+dir)
		cmd.Stdout, cmd.Stderr = &out, &errs
		return out, errs, cmd.Run()
	}
	out, errs, err := run()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	unzipped, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	again := ovsdbtest.Start(t, nb.Definition)
	if again.Replace(content); again.Dump("Logical_Switch", "name") != server.Dump("Logical_Switch", "name") || !strings.Contains(again.Content(), "worker") {
		t.Errorf("the copy has\n%s", again.Content())
	}
	if err := os.Truncate(database, 17<<20); err != nil {
		t.Fatal(err)
	}
	if out, errs, err := run(); err == nil || out.Len() > 0 || errs.String() != "its file has 17408 KiB, and at most 16384 are copied\n" {
		t.Errorf("of a large file: %v, %d bytes, %s", err, out.Len(), errs.String())
	}
	server.Kill()
	if err := os.Truncate(database, 16<<20); err != nil {
		t.Fatal(err)
	}
	if _, errs, err := run(); err == nil || !strings.Contains(errs.String(), "ovsdb-client") {
		t.Errorf("of no server: %v, %s", err, errs.String())
	}
}

// TestCollectNodes_SaysWhichCopiesItLeavesOut: one that fails, and one for which there is no room. Other files are there.
func TestCollectNodes_SaysWhichCopiesItLeavesOut(t *testing.T) {
	const copied = 1 << 20
	for name, c := range map[string]struct {
		file file
		most int64
		left string
	}{
		"fits":    {file{text: make([]byte, copied)}, copied + 1<<16, ""},
		"no room": {file{text: make([]byte, copied)}, copied - 1, "nodes/w1/northbound.db.gz: it has 1024 KiB, and the archive has 0 MiB\n"},
		"failed":  {file{text: []byte("x"), left: "its file has 17 MiB"}, copied, "nodes/w1/northbound.db.gz: its file has 17 MiB\n"},
	} {
		var out, progress bytes.Buffer
		size := &counter{to: &out}
		archive, err := snapshot.NewArchive(size, snapshot.New(time.Unix(0, 0), "ovn-kubernetes"))
		if err != nil {
			t.Fatal(err)
		}
		c.file.name = "nodes/w1/northbound.db.gz"
		files := []file{c.file, {name: "nodes/w1/routes.txt", text: []byte("route")}}
		o := Options{Nodes: []string{"w1"}, MaxSize: c.most, Progress: &progress}
		if err := o.collectNodes(func(string) []file { return files }, archive, size); err != nil {
			t.Fatal(err)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		got := filesOf(t, &out)
		if !strings.Contains(got["nodes/w1/routes.txt"], "route") || got["left-out.txt"] != c.left || (got["nodes/w1/northbound.db.gz"] == "") != (c.left != "") ||
			strings.Contains(progress.String(), "left out") != (c.left != "") {
			t.Errorf("%s: left out %q, want %q; %s", name, got["left-out.txt"], c.left, progress.String())
		}
	}
}

// TestCommands_ArchivesWithPseudonymsHaveNoDatabase, whose names of deleted objects no one knows.
func TestCommands_ArchivesWithPseudonymsHaveNoDatabase(t *testing.T) {
	copies, nics := 0, 0
	for _, c := range commands() {
		if (c.file == "inventory" || c.file == "devlink") && !c.namesFormer() { // NICs are no objects
			nics++
		}
		if c.isCopy() {
			copies++
			if !c.namesFormer() {
				t.Errorf("%s is in them", c.file)
			}
		}
	}
	if copies != 2 || nics != 2 {
		t.Errorf("%d copies of databases, %d files about NICs", copies, nics)
	}
}

// TestHead_KnowsWhetherItIsAll: a writer at its limit takes the rest, as a stream must be read to its end.
func TestHead_KnowsWhetherItIsAll(t *testing.T) {
	for limit, full := range map[int]bool{5: true, 6: false} {
		h := &head{limit: limit}
		for _, text := range []string{"abcd", "ef"} {
			if n, err := io.WriteString(h, text); n != len(text) || err != nil {
				t.Errorf("limit %d: %d bytes of %q, %v", limit, n, text, err)
			}
		}
		if h.text.String() != "abcdef"[:limit] || h.full != full {
			t.Errorf("limit %d: %q, full %v", limit, h.text.String(), h.full)
		}
	}
}
