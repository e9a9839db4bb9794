package gateway

import (
	"context"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// save writes the checkpoint of an uplink.
type save struct {
	Path string
	Checkpoint
}

// forget removes it.
type forget struct{ Path string }

func (a save) String() string {
	return fmt.Sprintf("save checkpoint of %s (verified %t, index %d)", a.Interface, a.Verified, a.Index)
}
func (forget) String() string { return "remove checkpoint" }

func (a save) Apply(context.Context, *node.Host) error { return durable.Save(a.Path, a.Checkpoint) }

func (a forget) Apply(context.Context, *node.Host) error { return removeCheckpoint(a.Path) }
