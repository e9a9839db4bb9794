package redirect

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestReadKernel_IsWhatNFTWrote: what nft has written is read as what was wanted, so that it is written once. An element more, and a
// table that is gone, are seen.
func TestReadKernel_IsWhatNFTWrote(t *testing.T) {
	enter(t, netdevtest.NewNS(t))
	host := &localnetHost{value: "0", forget: func() error { return nil }}
	table := New(host, slog.New(slog.DiscardHandler))
	if table == nil {
		t.Fatal("no nftables")
	}
	writes := &countingNFT{Interface: table.nft}
	table.nft = writes
	keep := func(when string, want int) {
		t.Helper()
		writes.n = 0
		nodetest.Must(t, table.Keep(t.Context(), []netip.Prefix{nodeV4, nodeV6}, redirectedPorts))
		if writes.n != want {
			have, err := readKernel()
			t.Errorf("%s: written %d times, want %d: %+v %v", when, writes.n, want, have, err)
		}
	}
	keep("at first", 1)
	keep("again", 0)
	tx := table.nft.NewTransaction()
	tx.Add(&knftables.Element{Map: nodePortMap + "ip", Key: []string{"sctp", "22"}, Value: []string{"10.96.0.66", "22"}})
	nodetest.Must(t, table.nft.Run(t.Context(), tx))
	keep("with an element more", 1)
	keep("without it", 0)
	nodetest.Must(t, table.Remove(t.Context()))
	keep("without the table", 1)
}

// enter runs the rest of the test, and the programs that it starts, in a network namespace.
func enter(t *testing.T, path string) {
	t.Helper()
	runtime.LockOSThread() // the thread ends with the test
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	nodetest.Must(t, err)
	defer unix.Close(fd)
	nodetest.Must(t, unix.Setns(fd, unix.CLONE_NEWNET))
}

// countingNFT counts transactions.
type countingNFT struct {
	knftables.Interface
	n int
}

func (c *countingNFT) Run(ctx context.Context, tx *knftables.Transaction) error {
	c.n++
	return c.Interface.Run(ctx, tx)
}
