package redirect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"sigs.k8s.io/knftables"

	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestReadKernel_IsWhatNFTWrote: what nft has written is read as what was wanted, so that it is written once. An element more, elements
// of another form and a table that is gone are seen, and mended.
func TestReadKernel_IsWhatNFTWrote(t *testing.T) {
	nodetest.Must(t, netdevtest.Inside(netdevtest.NewNS(t), func() error {
		host := &localnetHost{value: "0", forget: func() error { return nil }}
		table := New(host, slog.New(slog.DiscardHandler))
		if table == nil {
			return errors.New("no nftables")
		}
		writes := &countingNFT{Interface: table.nft}
		table.nft = writes
		keep := func(when string, want int) error {
			writes.n = 0
			err := table.Keep(t.Context(), nodeOf(redirectedPorts, nodeV4, nodeV6))
			if err == nil && writes.n != want {
				have, readErr := readKernel()
				err = errors.Join(fmt.Errorf("%s: written %d times, want %d: %+v", when, writes.n, want, have), readErr)
			}
			return err
		}
		add := func(objects ...knftables.Object) error {
			tx := table.nft.NewTransaction()
			for _, object := range objects {
				tx.Add(object)
			}
			return table.nft.Run(t.Context(), tx)
		}
		return errors.Join(
			keep("at first", 1),
			keep("again", 0),
			add(&knftables.Element{Map: nodePortMap + "ip", Key: []string{"sctp", "22"}, Value: []string{"10.96.0.66", "22"}}),
			keep("with an element more", 1),
			keep("without it", 0),
			add(&knftables.Set{Name: "foreign", Type: "ether_addr"}, &knftables.Element{Set: "foreign", Key: []string{"02:00:00:00:00:01"}}),
			add(&knftables.Map{Name: "marks", Type: "mark : mark"}, &knftables.Element{Map: "marks", Key: []string{"1"}, Value: []string{"2"}}),
			keep("with elements of other forms", 1),
			keep("without them", 0),
			table.Remove(t.Context()),
			keep("without the table", 1),
		)
	}))
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
