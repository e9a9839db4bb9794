package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

// daemons starts what an image for another architecture has to be able to start: our programs, and those of OVS and OVN.
const daemons = `
for program in ovn-offload-controller ovn-offload-agent ovs-vswitchd ovn-controller ovn-northd; do
	echo "$program --version"
	"$program" --version
done
mkdir -p /tmp/db
ovsdb-tool create /tmp/db/nb.db /usr/share/ovn/ovn-nb.ovsschema
ovsdb-server --remote=punix:/tmp/db/nb.sock --unixctl=/tmp/db/nb.ctl --pidfile=/tmp/db/nb.pid --detach --log-file=/tmp/db/log /tmp/db/nb.db
trap 'ovs-appctl -t /tmp/db/nb.ctl exit' EXIT
ovsdb-client --timeout=30 list-dbs unix:/tmp/db/nb.sock | grep -x OVN_Northbound
`

// try starts the programs of an image in a root directory that has its layers. Those of another architecture run in
// user-mode emulation.
func try(ctx context.Context, work string, built product.Built) error {
	root := filepath.Join(work, "root")
	defer func() { _ = os.RemoveAll(root) }()
	if err := product.Unpack(ctx, work, built, root); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		return err
	}
	for name, device := range map[string]uint64{"null": unix.Mkdev(1, 3), "urandom": unix.Mkdev(1, 9)} {
		if err := unix.Mknod(filepath.Join(root, "dev", name), unix.S_IFCHR|0o666, int(device)); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
	}
	cmd := exec.CommandContext(ctx, "chroot", root, "/bin/bash", "-euo", "pipefail", "-c", daemons)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	fmt.Println("  " + strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n  "))
	return nil
}
