package conntrack

import (
	"context"
	"hash/maphash"
	"maps"
	"strconv"
)

// few addresses are read one by one. For more, all flows and groups are read: those of all services of the cluster.
const few = 8

// servers gives those of the addresses of connections.
func (r *Reconciler) servers(ctx context.Context, connections []connection) (servers, error) {
	asked := map[frontend]bool{}
	for _, c := range connections {
		asked[c.frontend()] = true
	}
	if len(asked) > few {
		return r.readAll(ctx, asked)
	}
	all := servers{}
	for f := range asked {
		one, err := r.readFrontend(ctx, f)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, one)
	}
	return all, nil
}

// readFrontend reads the flows before and after their groups, because a group's number may move to another service
// meanwhile. An address whose groups have changed is left out: its flows have changed too, and another pass follows.
func (r *Reconciler) readFrontend(ctx context.Context, f frontend) (servers, error) {
	asked := map[frontend]bool{f: true}
	before, after := newReader(asked), newReader(asked)
	err := r.deps.Flows.Dump(ctx, r.cfg.Bridge, f.match(), before.flow)
	if err != nil || len(before.groups) == 0 {
		return before.servers(), err
	}
	ids := []string{""} // all: with session affinity, each endpoint has some of its own
	if len(before.groups) <= few {
		ids = nil
		for group := range before.groups {
			ids = append(ids, strconv.FormatUint(group, 10))
		}
	}
	for _, id := range ids {
		if err := r.deps.Flows.Groups(ctx, r.cfg.Bridge, id, before.group); err != nil {
			return nil, err
		}
	}
	if err := r.deps.Flows.Dump(ctx, r.cfg.Bridge, f.match(), after.flow); err != nil {
		return nil, err
	}
	if !maps.Equal(before.frontends[f], after.frontends[f]) {
		return nil, nil
	}
	return before.servers(), nil
}

// readAll reads the groups before and after the flows: the flows refer to the groups that have not changed. It keeps
// those of asked.
func (r *Reconciler) readAll(ctx context.Context, asked map[frontend]bool) (servers, error) {
	seed, was, tables := maphash.MakeSeed(), map[uint64]bool{}, newReader(asked)
	err := r.deps.Flows.Groups(ctx, r.cfg.Bridge, "", func(group string) { was[maphash.String(seed, group)] = true })
	if err != nil {
		return nil, err
	}
	if err := r.deps.Flows.Dump(ctx, r.cfg.Bridge, "", tables.flow); err != nil {
		return nil, err
	}
	err = r.deps.Flows.Groups(ctx, r.cfg.Bridge, "", func(group string) {
		if was[maphash.String(seed, group)] {
			tables.group(group)
		}
	})
	return tables.servers(), err
}
