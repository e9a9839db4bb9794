package cni

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// leaving behaves as *ovsdb.DB without a connection: after its first listing it
// shows nothing, in another generation.
type leaving struct {
	*fakeDB
	listed bool
}

func (l *leaving) Owners() []string {
	if l.listed {
		return nil
	}
	l.listed = true
	return l.fakeDB.Owners()
}

func (l *leaving) Rows(owner string) []ovsdb.Row {
	if l.listed {
		return nil
	}
	return l.fakeDB.Rows(owner)
}

func (l *leaving) Generation() uint64 {
	if l.listed {
		return 0
	}
	return 1
}

func TestSweepSparesLinksWhenTheDatabaseGoesAway(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.ovs.DB = &leaving{fakeDB: n.db}
	if err := n.srv.Sweep(t.Context()); err == nil {
		t.Error("a sweep without a database succeeded")
	}
	n.wantLinks(linkA)
}
