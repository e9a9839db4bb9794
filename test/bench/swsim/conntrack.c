// SPDX-License-Identifier: GPL-2.0
/* Connections that the kernel offloads, a table for each of its flow tables. */
#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_flow_table.h>
#include <uapi/linux/pkt_cls.h>
#include "swsim.h"

static LIST_HEAD(tables);		/* under offload.c's mutex */
static DEFINE_MUTEX(conns_lock);	/* connections of all tables */
static atomic_t added, deleted;

static void conn_free(struct swsim_conn *c)
{
	list_del_rcu(&c->list);
	kfree_rcu(c, rcu);
}

static struct swsim_conn *conn_get(struct swsim_ft *e, unsigned long cookie)
{
	struct swsim_conn *c;

	list_for_each_entry(c, &e->conns, list)
		if (c->cookie == cookie)
			return c;
	return NULL;
}

static void conn_state(struct swsim_conn *c, const struct flow_action_entry *act)
{
	c->state.ct_state = TCA_FLOWER_KEY_CT_FLAGS_TRACKED;
	switch (act->ct_metadata.cookie & NFCT_INFOMASK) {
	case IP_CT_NEW:
		c->state.ct_state |= TCA_FLOWER_KEY_CT_FLAGS_NEW;
		break;
	case IP_CT_ESTABLISHED:
		c->state.ct_state |= TCA_FLOWER_KEY_CT_FLAGS_ESTABLISHED;
		break;
	default:
		c->state.ct_state |= TCA_FLOWER_KEY_CT_FLAGS_ESTABLISHED |
				     TCA_FLOWER_KEY_CT_FLAGS_REPLY;
	}
	c->state.ct_mark = act->ct_metadata.mark;
	memcpy(c->state.ct_labels, act->ct_metadata.labels, sizeof(c->state.ct_labels));
}

/* Addresses and ports come in the host's order here; those of pedit as they are in packets. */
static struct swsim_mangle translation(const struct flow_action_entry *act)
{
	struct swsim_mangle m = {
		act->mangle.htype, act->mangle.offset, act->mangle.mask, act->mangle.val
	};

	if (m.base == FLOW_ACT_MANGLE_HDR_TYPE_TCP || m.base == FLOW_ACT_MANGLE_HDR_TYPE_UDP)
		m.val = (__force u16)cpu_to_be16(m.val);
	else
		m.val = (__force u32)cpu_to_be32(m.val);
	return m;
}

static struct swsim_conn *conn_parse(struct flow_cls_offload *f)
{
	struct flow_rule *rule = flow_cls_offload_flow_rule(f);
	struct flow_action_entry *act;
	struct swsim_conn *c;
	bool known = false;
	int i;

	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return ERR_PTR(-ENOMEM);
	c->cookie = f->cookie;
	c->count.used = jiffies;
	if (swsim_match_set(&c->match, rule, false))
		goto refuse;
	flow_action_for_each(i, act, &rule->action) {
		switch (act->id) {
		case FLOW_ACTION_MANGLE:
			if (c->nmangle == SWSIM_NAT_MAX)
				goto refuse;
			c->mangle[c->nmangle++] = translation(act);
			break;
		case FLOW_ACTION_CT_METADATA:
			conn_state(c, act);
			known = true;
			break;
		default:
			goto refuse;
		}
	}
	if (known)
		return c;
refuse:
	kfree(c);
	return ERR_PTR(-EOPNOTSUPP);
}

static int conn_cb(enum tc_setup_type type, void *type_data, void *cb_priv)
{
	struct flow_cls_offload *f = type_data;
	struct swsim_ft *e = cb_priv;
	struct swsim_conn *old, *c;
	int err = 0;

	if (type != TC_SETUP_CLSFLOWER)
		return -EOPNOTSUPP;
	mutex_lock(&conns_lock);
	old = conn_get(e, f->cookie);
	switch (f->command) {
	case FLOW_CLS_REPLACE:	/* comes again when the reply was seen */
		c = conn_parse(f);
		if (IS_ERR(c)) {
			err = PTR_ERR(c);
			break;
		}
		list_add_rcu(&c->list, &e->conns);
		if (old)
			conn_free(old);
		else
			atomic_inc(&added);
		break;
	case FLOW_CLS_DESTROY:
		if (!old) {
			err = -ENOENT;
			break;
		}
		conn_free(old);
		atomic_inc(&deleted);
		break;
	case FLOW_CLS_STATS:
		if (old)
			swsim_count_tell(&old->count, &f->stats);
		else
			err = -ENOENT;
		break;
	default:
		err = -EOPNOTSUPP;
	}
	mutex_unlock(&conns_lock);
	return err;
}

struct swsim_ft *swsim_ft_get(struct nf_flowtable *ft)
{
	struct swsim_ft *e;

	list_for_each_entry(e, &tables, list)
		if (e->ft == ft) {
			e->refs++;
			return e;
		}
	e = kzalloc(sizeof(*e), GFP_KERNEL);
	if (!e)
		return ERR_PTR(-ENOMEM);
	e->ft = ft;
	e->refs = 1;
	INIT_LIST_HEAD(&e->conns);
	if (nf_flow_table_offload_add_cb(ft, conn_cb, e)) {
		kfree(e);
		return ERR_PTR(-EOPNOTSUPP);
	}
	list_add(&e->list, &tables);
	return e;
}

/* No callback runs once the kernel has removed ours, so what is left is ours. */
void swsim_ft_put(struct swsim_ft *e)
{
	struct swsim_conn *c, *next;

	if (!e || --e->refs)
		return;
	nf_flow_table_offload_del_cb(e->ft, conn_cb, e);
	list_del(&e->list);
	mutex_lock(&conns_lock);
	list_for_each_entry_safe(c, next, &e->conns, list) {
		conn_free(c);
		atomic_inc(&deleted);
	}
	mutex_unlock(&conns_lock);
	kfree_rcu(e, rcu);
}

struct swsim_conn *swsim_conn_find(struct swsim_ft *e, const struct swsim_key *key)
{
	struct swsim_conn *c;

	list_for_each_entry_rcu(c, &e->conns, list)
		if (swsim_matches(&c->match, key))
			return c;
	return NULL;
}

void swsim_ct_stats(struct seq_file *s)
{
	seq_printf(s, "ct_added %d\nct_deleted %d\n", atomic_read(&added), atomic_read(&deleted));
}
