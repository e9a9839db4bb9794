package conntrack

import (
	"context"
	"hash/maphash"
	"maps"
	"strconv"
)

// few addresses are asked for one by one; for more all flows and groups are read,
// which on every node are those of all services of the cluster.
const few = 8

// servers gives those of the addresses of connections.
func (k *Keeper) servers(ctx context.Context, connections []connection) (servers, error) {
	asked := map[frontend]bool{}
	for _, c := range connections {
		asked[c.frontend()] = true
	}
	if len(asked) > few {
		return k.readAll(ctx, asked)
	}
	all := servers{}
	for f := range asked {
		one, err := k.readFrontend(ctx, f)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, one)
	}
	return all, nil
}

// readFrontend reads the flows before and after their groups, for a group's number
// may be taken away meanwhile and given to another service: nothing is known of an
// address whose groups have changed. Its flows have, too, and another pass follows.
func (k *Keeper) readFrontend(ctx context.Context, f frontend) (servers, error) {
	asked := map[frontend]bool{f: true}
	r, after := newReader(asked), newReader(asked)
	err := k.deps.Flows.Dump(ctx, k.cfg.Bridge, f.match(), r.flow)
	if err != nil || len(r.groups) == 0 {
		return r.servers(), err
	}
	ids := []string{""} // all: with session affinity, each endpoint has some of its own
	if len(r.groups) <= few {
		ids = nil
		for group := range r.groups {
			ids = append(ids, strconv.FormatUint(group, 10))
		}
	}
	for _, id := range ids {
		if err := k.deps.Flows.Groups(ctx, k.cfg.Bridge, id, r.group); err != nil {
			return nil, err
		}
	}
	if err := k.deps.Flows.Dump(ctx, k.cfg.Bridge, f.match(), after.flow); err != nil {
		return nil, err
	}
	if !maps.Equal(r.frontends[f], after.frontends[f]) {
		return nil, nil
	}
	return r.servers(), nil
}

// readAll reads the groups before and after the flows: only those that have not
// changed are the ones that the flows speak of. None is kept but those of asked.
func (k *Keeper) readAll(ctx context.Context, asked map[frontend]bool) (servers, error) {
	seed, was, r := maphash.MakeSeed(), map[uint64]bool{}, newReader(asked)
	err := k.deps.Flows.Groups(ctx, k.cfg.Bridge, "", func(group string) { was[maphash.String(seed, group)] = true })
	if err != nil {
		return nil, err
	}
	if err := k.deps.Flows.Dump(ctx, k.cfg.Bridge, "", r.flow); err != nil {
		return nil, err
	}
	err = k.deps.Flows.Groups(ctx, k.cfg.Bridge, "", func(group string) {
		if was[maphash.String(seed, group)] {
			r.group(group)
		}
	})
	return r.servers(), err
}
