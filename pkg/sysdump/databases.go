package sysdump

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// databaseCopy writes a compressed copy of the database $0, nb or sb. ovsdb-server answers others only when it has the whole
// copy, after 3 seconds for a file of 64 MiB, and the members of a cluster choose another leader after 2.
const databaseCopy = `size=$(stat -c %s "${OVN_DBDIR:-/var/lib/ovn}/ovn$0_db.db") || exit
[ "$size" -le 16777216 ] || { echo "its file has $((size >> 10)) KiB, and at most 16384 are copied" >&2; exit 1; }
ovn-daemon backup "$0" | gzip`

// copyOf is a command whose output is a file or nothing. bash fails where any program of a pipe does.
func copyOf(database, file string) command {
	return command{"ovnkube-db", database + "-ovsdb", file, []string{"bash", "-o", "pipefail", "-c", databaseCopy, database}}
}

func (c command) isCopy() bool { return strings.HasSuffix(c.file, ".gz") }

// file is what a command printed, by the name that it has in an archive.
func (c *Cluster) file(ctx context.Context, node, pod string, run command) file {
	in, f := Container{pod, run.container}, file{name: "nodes/" + node + "/" + run.file}
	if !run.isCopy() {
		f.name, f.text = f.name+".txt", c.output(ctx, in, run.args)
		return f
	}
	out, errs := &head{limit: outputLimit}, &head{limit: logLimit}
	if err := c.exec(ctx, in, run.args, out, errs); err != nil {
		f.left = strings.TrimSpace(errs.text.String() + " " + err.Error())
	}
	f.text = out.text.Bytes()
	return f
}

// add writes the files of a node, and to left those that are not in the archive. A copy of a database has to fit.
func (o Options) add(archive *snapshot.Archive, size *counter, files []file, left io.Writer) error {
	for _, f := range files {
		if has := size.bytes.Load(); strings.HasSuffix(f.name, ".gz") && f.left == "" && has+int64(len(f.text)) > o.MaxSize {
			f.left = fmt.Sprintf("it has %d KiB, and the archive has %d MiB", len(f.text)>>10, has>>20)
		}
		if f.left != "" {
			fmt.Fprintf(left, "%s: %s\n", f.name, f.left)
			fmt.Fprintf(o.Progress, "%s: left out, %s\n", f.name, f.left)
			continue
		}
		if err := archive.Add(f.name, f.text); err != nil {
			return err
		}
	}
	return nil
}
