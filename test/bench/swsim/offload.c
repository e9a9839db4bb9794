// SPDX-License-Identifier: GPL-2.0
/* TC rules: which are taken, and the table of them. */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <net/dst_metadata.h>
#include <net/geneve.h>
#include <uapi/linux/tc_act/tc_csum.h>
#include <uapi/linux/tc_act/tc_ct.h>
#include "swsim.h"

static bool strict = true;
module_param(strict, bool, 0644);
MODULE_PARM_DESC(strict, "refuse what mlx5 refuses: ct_state +new");

#define BUCKETS 64

static LIST_HEAD(flows);
static struct hlist_head buckets[BUCKETS];
static DEFINE_MUTEX(flows_lock);	/* rules, and conntrack.c's tables */
static u32 nr_flows, nr_added, nr_deleted, nr_refused, fail_flower, max_flows;

static LIST_HEAD(block_cbs);
static LIST_HEAD(indr_cbs);

/* rules on tunnel devices (decapsulation) come through the indirect block */
struct swsim_indr {
	struct list_head list;	/* RCU; written under RTNL */
	struct net_device *dev;
	struct rcu_head rcu;
};
static LIST_HEAD(indrs);

static struct hlist_head *bucket(const struct net_device *dev, u32 chain)
{
	return &buckets[(dev->ifindex * 31 + chain) % BUCKETS];
}

bool swsim_is_tunnel(const struct net_device *dev)
{
	return netif_is_geneve(dev);
}

/* Of several rules the one with the lowest priority counts. */
struct swsim_flow *swsim_flow_find(const struct net_device *dev, u32 chain, __be16 proto,
				   const struct swsim_key *key)
{
	struct swsim_flow *fl, *best = NULL;

	hlist_for_each_entry_rcu(fl, bucket(dev, chain), node) {
		if (fl->dev != dev || fl->chain != chain || (best && best->prio <= fl->prio))
			continue;
		if (fl->proto != proto && fl->proto != htons(ETH_P_ALL))
			continue;
		if (swsim_matches(&fl->match, key))
			best = fl;
	}
	return best;
}

/* The tunnel device of a namespace that has rules; OVS has one for each kind of tunnel. */
struct net_device *swsim_tunnel_find(const struct net *net)
{
	struct swsim_indr *indr;

	list_for_each_entry_rcu(indr, &indrs, list)
		if (net_eq(dev_net(indr->dev), net))
			return indr->dev;
	return NULL;
}

void swsim_count_tell(struct swsim_count *c, struct flow_stats *stats)
{
	u64 packets = atomic64_read(&c->packets), bytes = atomic64_read(&c->bytes);

	flow_stats_update(stats, bytes - c->told_bytes, packets - c->told_packets, 0,
			  READ_ONCE(c->used), FLOW_ACTION_HW_STATS_DELAYED);
	c->told_packets = packets;
	c->told_bytes = bytes;
}

/* ------------------------------------------------------------ taking a rule */

static struct metadata_dst *tunnel_copy(const struct ip_tunnel_info *from)
{
	struct metadata_dst *md;
	struct ip_tunnel_info *to;

	md = metadata_dst_alloc(from->options_len, METADATA_IP_TUNNEL, GFP_KERNEL);
	if (!md)
		return NULL;
	to = &md->u.tun_info;	/* without the route that the original remembers */
	to->key = from->key;
	to->mode = from->mode;
	to->options_len = from->options_len;
	memcpy(ip_tunnel_info_opts(to), (const void *)(from + 1), from->options_len);
	return md;
}

static int take_output(struct net_device *dev, const struct flow_action_entry *act, bool encap,
		       struct swsim_act *to, struct netlink_ext_ack *extack)
{
	struct swsim_port *from = swsim_port_get(dev), *out = swsim_port_get(act->dev);

	if (!(out && (!from || from->pf == out->pf)) && !(encap && swsim_is_tunnel(act->dev))) {
		NL_SET_ERR_MSG_MOD(extack, "output device is not on this eswitch");
		return -EOPNOTSUPP;
	}
	to->ifindex = act->dev->ifindex;
	return 0;
}

static int take_ct(const struct flow_action_entry *act, struct swsim_act *to,
		   struct netlink_ext_ack *extack)
{
	to->ct.zone = act->ct.zone;
	to->ct.clear = act->ct.action & TCA_CT_ACT_CLEAR;
	to->ct.nat = act->ct.action & TCA_CT_ACT_NAT;
	if (to->ct.clear)
		return 0;
	if (act->ct.action & TCA_CT_ACT_FORCE || !act->ct.flow_table) {
		NL_SET_ERR_MSG_MOD(extack, "a connection is only forced in software");
		return -EOPNOTSUPP;
	}
	to->ct.ft = swsim_ft_get(act->ct.flow_table);
	if (IS_ERR(to->ct.ft)) {
		int err = PTR_ERR(to->ct.ft);

		to->ct.ft = NULL;
		return err;
	}
	return 0;
}

#define CSUMS (TCA_CSUM_UPDATE_FLAG_IPV4HDR | TCA_CSUM_UPDATE_FLAG_ICMP | \
	       TCA_CSUM_UPDATE_FLAG_TCP | TCA_CSUM_UPDATE_FLAG_UDP)

/* Only what execute.c can do is taken. */
static int take_action(struct net_device *dev, const struct flow_action_entry *act,
		       struct swsim_act *to, bool *encap, struct netlink_ext_ack *extack)
{
	to->id = act->id;
	switch (act->id) {
	case FLOW_ACTION_REDIRECT:
	case FLOW_ACTION_MIRRED:
		return take_output(dev, act, *encap, to, extack);
	case FLOW_ACTION_CT:
		return take_ct(act, to, extack);
	case FLOW_ACTION_TUNNEL_ENCAP:
		*encap = true;
		to->tunnel = tunnel_copy(act->tunnel);
		return to->tunnel ? 0 : -ENOMEM;
	case FLOW_ACTION_GOTO:
		to->chain = act->chain_index;
		return 0;
	case FLOW_ACTION_MANGLE:
		to->mangle = (struct swsim_mangle){ act->mangle.htype, act->mangle.offset,
						    act->mangle.mask, act->mangle.val };
		return 0;
	case FLOW_ACTION_VLAN_PUSH:
		to->vlan.vid = act->vlan.vid;
		to->vlan.proto = act->vlan.proto;
		to->vlan.prio = act->vlan.prio;
		return 0;
	case FLOW_ACTION_CSUM:
		to->csum = act->csum_flags;
		if (!(act->csum_flags & ~CSUMS))
			return 0;
		break;
	case FLOW_ACTION_TUNNEL_DECAP:
	case FLOW_ACTION_VLAN_POP:
	case FLOW_ACTION_DROP:
		return 0;
	default:
		break;
	}
	NL_SET_ERR_MSG_MOD(extack, "action is not offloaded");
	return -EOPNOTSUPP;
}

static void flow_release(struct swsim_flow *fl)
{
	unsigned int i;

	for (i = 0; i < fl->nacts; i++)
		if (fl->acts[i].id == FLOW_ACTION_CT)
			swsim_ft_put(fl->acts[i].ct.ft);
}

static void flow_free(struct swsim_flow *fl)
{
	unsigned int i;

	for (i = 0; i < fl->nacts; i++)
		if (fl->acts[i].id == FLOW_ACTION_TUNNEL_ENCAP && fl->acts[i].tunnel)
			dst_release(&fl->acts[i].tunnel->dst);
	kfree(fl);
}

static void flow_free_rcu(struct rcu_head *head)
{
	flow_free(container_of(head, struct swsim_flow, rcu));
}

static int flow_parse(struct swsim_flow *fl, struct flow_cls_offload *f)
{
	struct flow_rule *rule = flow_cls_offload_flow_rule(f);
	struct netlink_ext_ack *extack = f->common.extack;
	struct flow_action_entry *act;
	struct flow_match_ct ct;
	bool encap = false;
	int i, err;

	if (strict && flow_rule_match_key(rule, FLOW_DISSECTOR_KEY_CT)) {
		flow_rule_match_ct(rule, &ct);
		if (ct.key->ct_state & ct.mask->ct_state & TCA_FLOWER_KEY_CT_FLAGS_NEW) {
			NL_SET_ERR_MSG_MOD(extack, "ct_state +new cannot be offloaded");
			return -EOPNOTSUPP;
		}
	}
	if (swsim_match_set(&fl->match, rule, true)) {
		NL_SET_ERR_MSG_MOD(extack, "match is not offloaded");
		return -EOPNOTSUPP;
	}
	if (rule->action.num_entries > SWSIM_MAX_ACTS) {
		NL_SET_ERR_MSG_MOD(extack, "too many actions");
		return -EOPNOTSUPP;
	}
	flow_action_for_each(i, act, &rule->action) {
		/* As mlx5: of a connection that it has, nothing is left to commit; of
		 * another the packet goes to software. That is no end for a rule. */
		if (act->id == FLOW_ACTION_CT && act->ct.action & TCA_CT_ACT_COMMIT &&
		    flow_action_is_last_entry(&rule->action, act)) {
			NL_SET_ERR_MSG_MOD(extack, "a connection is only committed in software");
			return -EOPNOTSUPP;
		}
		err = take_action(fl->dev, act, &fl->acts[fl->nacts++], &encap, extack);
		if (err)
			return err;
	}
	return 0;
}

static int flow_add(struct net_device *dev, struct flow_cls_offload *f)
{
	struct swsim_port *p = swsim_port_get(dev);
	struct swsim_flow *fl;
	int err;

	if (fail_flower || (max_flows && nr_flows >= max_flows)) {
		NL_SET_ERR_MSG_MOD(f->common.extack, "no space in the flow table");
		return -ENOSPC;
	}
	fl = kzalloc(sizeof(*fl), GFP_KERNEL);
	if (!fl)
		return -ENOMEM;
	fl->cookie = f->cookie;
	fl->dev = dev;
	fl->chain = f->common.chain_index;
	fl->prio = f->common.prio;
	fl->proto = f->common.protocol;
	fl->count.used = jiffies;
	err = flow_parse(fl, f);
	if (err) {
		flow_release(fl);
		flow_free(fl);
		return err;
	}
	list_add_tail(&fl->list, &flows);
	hlist_add_head_rcu(&fl->node, bucket(dev, fl->chain));
	nr_flows++;
	nr_added++;
	if (p)
		WRITE_ONCE(p->nflows, p->nflows + 1);
	return 0;
}

static void flow_del(struct swsim_flow *fl)
{
	struct swsim_port *p = swsim_port_get(fl->dev);

	list_del(&fl->list);
	hlist_del_rcu(&fl->node);
	flow_release(fl);
	call_rcu(&fl->rcu, flow_free_rcu);
	nr_flows--;
	nr_deleted++;
	if (p)
		WRITE_ONCE(p->nflows, p->nflows - 1);
}

static struct swsim_flow *flow_get(const struct net_device *dev, unsigned long cookie)
{
	struct swsim_flow *fl;

	list_for_each_entry(fl, &flows, list)
		if (fl->cookie == cookie && fl->dev == dev)
			return fl;
	return NULL;
}

/* What is taken must be given back whatever the mode is by then. */
static int flower(struct net_device *dev, struct flow_cls_offload *f, bool open)
{
	struct swsim_flow *fl;
	int err = 0;

	mutex_lock(&flows_lock);
	fl = flow_get(dev, f->cookie);
	if (f->command == FLOW_CLS_REPLACE) {
		err = fl ? -EEXIST : open ? flow_add(dev, f) : -EOPNOTSUPP;
		if (err)
			nr_refused++;
	} else if (!fl) {
		err = -ENOENT;
	} else if (f->command == FLOW_CLS_DESTROY) {
		flow_del(fl);
	} else if (f->command == FLOW_CLS_STATS) {
		swsim_count_tell(&fl->count, &f->stats);
	} else {
		err = -EOPNOTSUPP;
	}
	mutex_unlock(&flows_lock);
	return err;
}

/* Policing is not simulated: beside it, packets stay in software, where TC does it. */
static int matchall(struct swsim_port *p, struct tc_cls_matchall_offload *f, bool open)
{
	switch (f->command) {
	case TC_CLSMATCHALL_REPLACE:
		if (!open)
			return -EOPNOTSUPP;
		WRITE_ONCE(p->npolice, p->npolice + 1);
		return 0;
	case TC_CLSMATCHALL_DESTROY:
		if (p->npolice)
			WRITE_ONCE(p->npolice, p->npolice - 1);
		return 0;
	case TC_CLSMATCHALL_STATS:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int block_cb(enum tc_setup_type type, void *type_data, void *cb_priv)
{
	struct swsim_port *p = cb_priv;
	bool open = tc_can_offload(p->dev) && is_switchdev(p->pf);

	switch (type) {
	case TC_SETUP_CLSFLOWER:
		return flower(p->dev, type_data, open);
	case TC_SETUP_CLSMATCHALL:
		return matchall(p, type_data, open);
	default:
		return -EOPNOTSUPP;
	}
}

int swsim_setup_tc(struct net_device *dev, enum tc_setup_type type, void *type_data)
{
	struct swsim_port *p = netdev_priv(dev);

	if (type != TC_SETUP_BLOCK)
		return -EOPNOTSUPP;
	return flow_block_cb_setup_simple(type_data, &block_cbs, block_cb, p, p, true);
}

/* ------------------------------------------------------------ tunnel devices */

static int indr_block_cb(enum tc_setup_type type, void *type_data, void *cb_priv)
{
	struct swsim_indr *indr = cb_priv;

	if (type != TC_SETUP_CLSFLOWER)
		return -EOPNOTSUPP;
	return flower(indr->dev, type_data, true);
}

static void indr_release(void *cb_priv)
{
	struct swsim_indr *indr = cb_priv;

	list_del_rcu(&indr->list);
	kfree_rcu(indr, rcu);
}

static struct swsim_indr *indr_get(const struct net_device *dev)
{
	struct swsim_indr *indr;

	list_for_each_entry(indr, &indrs, list)
		if (indr->dev == dev)
			return indr;
	return NULL;
}

static int indr_setup(struct net_device *dev, struct Qdisc *sch, void *cb_priv,
		      enum tc_setup_type type, void *type_data, void *data,
		      void (*cleanup)(struct flow_block_cb *block_cb))
{
	struct flow_block_offload *f = type_data;
	struct swsim_indr *indr;
	struct flow_block_cb *cb;

	if (!dev || type != TC_SETUP_BLOCK || !swsim_is_tunnel(dev) ||
	    f->binder_type != FLOW_BLOCK_BINDER_TYPE_CLSACT_INGRESS)
		return -EOPNOTSUPP;
	f->driver_block_list = &indr_cbs;
	indr = indr_get(dev);
	switch (f->command) {
	case FLOW_BLOCK_BIND:
		if (indr)
			return -EEXIST;
		indr = kzalloc(sizeof(*indr), GFP_KERNEL);
		if (!indr)
			return -ENOMEM;
		indr->dev = dev;
		list_add_rcu(&indr->list, &indrs);
		cb = flow_indr_block_cb_alloc(indr_block_cb, indr, indr, indr_release,
					      f, dev, sch, data, cb_priv, cleanup);
		if (IS_ERR(cb)) {
			indr_release(indr);
			return PTR_ERR(cb);
		}
		flow_block_cb_add(cb, f);
		list_add_tail(&cb->driver_list, &indr_cbs);
		return 0;
	case FLOW_BLOCK_UNBIND:
		cb = indr ? flow_block_cb_lookup(f->block, indr_block_cb, indr) : NULL;
		if (!cb)
			return -ENOENT;
		flow_indr_block_cb_remove(cb, f);
		list_del(&cb->driver_list);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* ------------------------------------------------------------ debugfs */

static int flows_show(struct seq_file *s, void *v)
{
	struct swsim_flow *fl;
	unsigned int i;

	mutex_lock(&flows_lock);
	list_for_each_entry(fl, &flows, list) {
		seq_printf(s, "dev=%s chain=%u prio=%u proto=0x%04x packets=%lld bytes=%lld acts=",
			   fl->dev->name, fl->chain, fl->prio, ntohs(fl->proto),
			   atomic64_read(&fl->count.packets), atomic64_read(&fl->count.bytes));
		for (i = 0; i < fl->nacts; i++)
			seq_printf(s, "%s%d", i ? "," : "", fl->acts[i].id);
		seq_putc(s, '\n');
	}
	mutex_unlock(&flows_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(flows);

static int stats_show(struct seq_file *s, void *v)
{
	mutex_lock(&flows_lock);
	seq_printf(s, "flows %u\nadded %u\ndeleted %u\nrefused %u\n",
		   nr_flows, nr_added, nr_deleted, nr_refused);
	mutex_unlock(&flows_lock);
	swsim_ct_stats(s);
	swsim_execute_stats(s);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

int swsim_offload_init(struct dentry *dir)
{
	debugfs_create_file("flows", 0400, dir, NULL, &flows_fops);
	debugfs_create_file("stats", 0400, dir, NULL, &stats_fops);
	debugfs_create_u32("fail_flower", 0600, dir, &fail_flower);
	debugfs_create_u32("max_flows", 0600, dir, &max_flows);
	return flow_indr_dev_register(indr_setup, NULL);
}

void swsim_offload_exit(void)
{
	flow_indr_dev_unregister(indr_setup, NULL, indr_release);
	rcu_barrier();	/* flow_free_rcu is in this module */
}
