// SPDX-License-Identifier: GPL-2.0
/*
 * What rules do to packets, as the NIC would: past representors and software.
 *
 * A packet goes all its way here or not at all. A copy walks the chains; if it
 * comes to an end, the original is dropped and the rules on the way are counted.
 * If not (no rule, a connection that is not offloaded, a fragment) the original
 * goes to software untouched and starts there from chain 0. A real NIC hands
 * over midway; what the packet meets is the same.
 */
#include <linux/icmpv6.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/dst_metadata.h>
#include <net/geneve.h>
#include <net/ip6_checksum.h>
#include <net/udp_tunnel.h>
#include <uapi/linux/tc_act/tc_csum.h>
#include "swsim.h"

static bool execute = true;
module_param(execute, bool, 0644);
MODULE_PARM_DESC(execute, "rules that were taken are executed");

static atomic64_t executed, missed;

#define MAX_STAGES 16
#define MAX_CONNS 8
#define GENEVE_PORT 6081
#define GENEVE_HEADER (sizeof(struct udphdr) + sizeof(struct genevehdr))

/* run is one packet on its way. */
struct run {
	struct net_device *dev;		/* whose rules */
	struct swsim_pf *pf;
	struct sk_buff *skb;		/* the copy, data at the network header */
	struct swsim_key key;
	struct flow_dissector_key_ct ct;
	bool nat;			/* ct was looked up to translate */
	struct sk_buff_head out;	/* dev says where to */
	struct swsim_flow *flows[MAX_STAGES];
	struct swsim_conn *conns[MAX_CONNS];
	unsigned int nflows, nconns;
};

enum verdict { NEXT, JUMP, DONE, MISS };

static void look(struct run *r)
{
	swsim_dissect(r->skb, &r->key);
	r->key.ct = r->ct;
	skb_set_transport_header(r->skb, r->key.control.thoff);
}

static bool fragment(const struct run *r)
{
	return r->key.control.flags & FLOW_DIS_IS_FRAGMENT;
}

/* ------------------------------------------------------------ changing headers */

static bool mangle(struct sk_buff *skb, const struct swsim_mangle *m)
{
	int at = m->offset;
	u32 word;

	switch (m->base) {
	case FLOW_ACT_MANGLE_HDR_TYPE_ETH:
		at += skb_mac_offset(skb);
		break;
	case FLOW_ACT_MANGLE_HDR_TYPE_IP4:
	case FLOW_ACT_MANGLE_HDR_TYPE_IP6:
		break;
	case FLOW_ACT_MANGLE_HDR_TYPE_TCP:
	case FLOW_ACT_MANGLE_HDR_TYPE_UDP:
		at += skb_transport_offset(skb);
		break;
	default:
		return false;
	}
	if (at + 4 > 0 && !pskb_may_pull(skb, at + 4))
		return false;
	if (skb->data + at < skb->head)
		return false;
	memcpy(&word, skb->data + at, 4);
	word = (word & m->mask) ^ m->val;
	memcpy(skb->data + at, &word, 4);
	return true;
}

static __sum16 pseudo(const struct sk_buff *skb, u32 len, u8 proto, __wsum sum)
{
	if (skb->protocol == htons(ETH_P_IPV6))
		return csum_ipv6_magic(&ipv6_hdr(skb)->saddr, &ipv6_hdr(skb)->daddr, len, proto, sum);
	return csum_tcpudp_magic(ip_hdr(skb)->saddr, ip_hdr(skb)->daddr, len, proto, sum);
}

static bool csum_transport(struct sk_buff *skb, u8 proto, size_t header, size_t at)
{
	int thoff = skb_transport_offset(skb);
	u32 len = skb->len - thoff;
	__sum16 *check;

	if (!pskb_may_pull(skb, thoff + header))
		return false;
	check = (void *)skb_transport_header(skb) + at;
	if (proto == IPPROTO_UDP && !*check && skb->ip_summed != CHECKSUM_PARTIAL)
		return true;	/* sent without */
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		*check = ~pseudo(skb, len, proto, 0);
		return true;
	}
	*check = 0;
	if (proto == IPPROTO_ICMP)
		*check = csum_fold(skb_checksum(skb, thoff, len, 0));
	else
		*check = pseudo(skb, len, proto, skb_checksum(skb, thoff, len, 0));
	if (proto == IPPROTO_UDP && !*check)
		*check = CSUM_MANGLED_0;
	skb->ip_summed = CHECKSUM_NONE;
	return true;
}

static bool csum(struct run *r, u32 flags)
{
	struct sk_buff *skb = r->skb;
	u8 proto = r->key.basic.ip_proto;

	if (skb->protocol == htons(ETH_P_IP)) {
		if (!pskb_may_pull(skb, sizeof(struct iphdr)) || !pskb_may_pull(skb, ip_hdrlen(skb)))
			return false;
		if (flags & TCA_CSUM_UPDATE_FLAG_IPV4HDR)
			ip_send_check(ip_hdr(skb));
	}
	if (fragment(r))
		return !(flags & ~TCA_CSUM_UPDATE_FLAG_IPV4HDR);
	switch (proto) {
	case IPPROTO_TCP:
		return !(flags & TCA_CSUM_UPDATE_FLAG_TCP) ||
			csum_transport(skb, proto, sizeof(struct tcphdr), offsetof(struct tcphdr, check));
	case IPPROTO_UDP:
		return !(flags & TCA_CSUM_UPDATE_FLAG_UDP) ||
			csum_transport(skb, proto, sizeof(struct udphdr), offsetof(struct udphdr, check));
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:	/* its checksum is at the same place */
		return !(flags & TCA_CSUM_UPDATE_FLAG_ICMP) ||
			csum_transport(skb, proto, sizeof(struct icmp6hdr), offsetof(struct icmp6hdr, icmp6_cksum));
	default:
		return true;
	}
}

/* ------------------------------------------------------------ actions */

static enum verdict output(struct run *r, const struct swsim_act *a, bool last)
{
	struct net_device *to = dev_get_by_index_rcu(dev_net(r->dev), a->ifindex);
	struct swsim_port *p = to ? swsim_port_get(to) : NULL;
	int mac = r->skb->data - skb_mac_header(r->skb);
	struct sk_buff *skb = r->skb;

	skb_push(r->skb, mac);	/* a copy has nothing of what is before data */
	if (last) {
		r->skb = NULL;
	} else {
		skb = pskb_copy(r->skb, GFP_ATOMIC);
		skb_pull(r->skb, mac);
	}
	if (!skb)
		return MISS;
	if (!to || (p ? p->pf != r->pf : !swsim_is_tunnel(to))) {
		kfree_skb(skb);
		return MISS;
	}
	skb->dev = to;
	__skb_queue_tail(&r->out, skb);
	return last ? DONE : NEXT;
}

static enum verdict conntrack(struct run *r, const struct swsim_act *a)
{
	struct swsim_conn *c;
	unsigned int i;

	/* As mlx5 and act_ct: a packet that a zone knows is not looked up there again,
	 * and would not be found once its addresses were translated. */
	if (!a->ct.clear && r->ct.ct_state && r->ct.ct_zone == a->ct.zone && (r->nat || !a->ct.nat))
		return NEXT;
	memset(&r->ct, 0, sizeof(r->ct));
	if (a->ct.clear)
		return NEXT;
	look(r);	/* actions before this one may have changed it */
	if (fragment(r) || r->nconns == MAX_CONNS)
		return MISS;
	c = swsim_conn_find(a->ct.ft, &r->key);
	if (!c)
		return MISS;
	r->conns[r->nconns++] = c;
	r->ct = c->state;
	r->ct.ct_zone = a->ct.zone;
	r->nat = a->ct.nat;
	if (!a->ct.nat || !c->nmangle)
		return NEXT;
	for (i = 0; i < c->nmangle; i++)
		if (!mangle(r->skb, &c->mangle[i]))
			return MISS;
	return csum(r, TCA_CSUM_UPDATE_FLAG_IPV4HDR | TCA_CSUM_UPDATE_FLAG_TCP |
		       TCA_CSUM_UPDATE_FLAG_UDP) ? NEXT : MISS;
}

static enum verdict vlan(struct sk_buff *skb, const struct swsim_act *a)
{
	int err, mac = skb->data - skb_mac_header(skb);

	skb_push(skb, mac);
	if (a->id == FLOW_ACTION_VLAN_PUSH)
		err = skb_vlan_push(skb, a->vlan.proto, a->vlan.vid | a->vlan.prio << VLAN_PRIO_SHIFT);
	else
		err = skb_vlan_pop(skb);
	if (err)
		return MISS;
	skb_pull(skb, skb->mac_len);
	return NEXT;
}

static enum verdict act(struct run *r, const struct swsim_act *a, u32 *chain)
{
	switch (a->id) {
	case FLOW_ACTION_REDIRECT:
	case FLOW_ACTION_MIRRED:
		return output(r, a, a->id == FLOW_ACTION_REDIRECT);
	case FLOW_ACTION_GOTO:
		*chain = a->chain;
		return JUMP;
	case FLOW_ACTION_DROP:
		return DONE;
	case FLOW_ACTION_CT:
		return conntrack(r, a);
	case FLOW_ACTION_MANGLE:
		return mangle(r->skb, &a->mangle) ? NEXT : MISS;
	case FLOW_ACTION_CSUM:
		return csum(r, a->csum) ? NEXT : MISS;
	case FLOW_ACTION_VLAN_PUSH:
	case FLOW_ACTION_VLAN_POP:
		return vlan(r->skb, a);
	case FLOW_ACTION_TUNNEL_DECAP:
		skb_dst_drop(r->skb);
		return NEXT;
	case FLOW_ACTION_TUNNEL_ENCAP:
		skb_dst_drop(r->skb);
		dst_hold(&a->tunnel->dst);
		skb_dst_set(r->skb, &a->tunnel->dst);
		return NEXT;
	default:
		return MISS;
	}
}

static enum verdict stage(struct run *r, u32 *chain)
{
	struct swsim_flow *fl;
	enum verdict v = NEXT;
	unsigned int i;

	look(r);
	fl = swsim_flow_find(r->dev, *chain, skb_protocol(r->skb, false), &r->key);
	if (!fl)
		return MISS;
	r->flows[r->nflows++] = fl;
	for (i = 0; i < fl->nacts && v == NEXT; i++)
		v = act(r, &fl->acts[i], chain);
	return v == NEXT ? MISS : v;	/* a rule without an end is for the stack */
}

static bool walk(struct run *r)
{
	enum verdict v = JUMP;
	u32 chain = 0;

	while (v == JUMP && r->nflows < MAX_STAGES)
		v = stage(r, &chain);
	return v == DONE;
}

/* ------------------------------------------------------------ packets */

/* The copy as ingress would see it: data at the network header, nothing left of its sender. */
static struct sk_buff *copy(struct sk_buff *skb, struct net_device *dev)
{
	struct sk_buff *c = pskb_copy(skb, GFP_ATOMIC);

	if (!c)
		return NULL;
	skb_scrub_packet(c, true);
	if (!pskb_may_pull(c, ETH_HLEN)) {
		kfree_skb(c);
		return NULL;
	}
	c->protocol = eth_type_trans(c, dev);
	skb_reset_network_header(c);
	if (eth_type_vlan(c->protocol))
		c = skb_vlan_untag(c);	/* frees it when it cannot */
	if (c)
		skb_reset_mac_len(c);
	return c;
}

/* Takes the outer headers off a Geneve packet and keeps them as tunnel metadata. */
static bool decapsulate(struct sk_buff *skb, struct net_device *tunnel)
{
	IP_TUNNEL_DECLARE_FLAGS(flags) = { };
	bool v6 = skb->protocol == htons(ETH_P_IPV6);
	struct metadata_dst *md;
	struct genevehdr *gh;
	int header, options;

	if (v6) {
		if (!pskb_may_pull(skb, sizeof(struct ipv6hdr)) || ipv6_hdr(skb)->nexthdr != IPPROTO_UDP)
			return false;
		header = sizeof(struct ipv6hdr);
	} else {
		if (skb->protocol != htons(ETH_P_IP) || !pskb_may_pull(skb, sizeof(struct iphdr)) ||
		    ip_hdr(skb)->protocol != IPPROTO_UDP || ip_is_fragment(ip_hdr(skb)))
			return false;
		header = ip_hdrlen(skb);
	}
	if (!pskb_may_pull(skb, header + GENEVE_HEADER))
		return false;
	skb_set_transport_header(skb, header);
	gh = (struct genevehdr *)(udp_hdr(skb) + 1);
	if (udp_hdr(skb)->dest != htons(GENEVE_PORT) || gh->ver || gh->proto_type != htons(ETH_P_TEB))
		return false;
	options = gh->opt_len * 4;
	if (!pskb_may_pull(skb, header + GENEVE_HEADER + options + ETH_HLEN))
		return false;
	gh = (struct genevehdr *)(udp_hdr(skb) + 1);
	__set_bit(IP_TUNNEL_KEY_BIT, flags);
	__assign_bit(IP_TUNNEL_OAM_BIT, flags, gh->oam);
	__assign_bit(IP_TUNNEL_CRIT_OPT_BIT, flags, gh->critical);
	md = udp_tun_rx_dst(skb, v6 ? AF_INET6 : AF_INET, flags,
			    key32_to_tunnel_id(htonl(gh->vni[0] << 16 | gh->vni[1] << 8 | gh->vni[2])), options);
	if (!md)
		return false;
	ip_tunnel_flags_zero(flags);
	if (options)
		__set_bit(IP_TUNNEL_GENEVE_OPT_BIT, flags);
	ip_tunnel_info_opts_set(&md->u.tun_info, gh->options, options, flags);
	__skb_pull(skb, header);
	if (iptunnel_pull_header(skb, GENEVE_HEADER + options, htons(ETH_P_TEB), true)) {
		dst_release(&md->dst);
		return false;
	}
	skb_dst_set(skb, &md->dst);
	skb->protocol = eth_type_trans(skb, tunnel);
	skb_reset_network_header(skb);
	skb_reset_mac_len(skb);
	return true;
}

static void send(struct run *r)
{
	struct swsim_port *p;
	struct net_device *peer;
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(&r->out))) {
		p = swsim_port_get(skb->dev);
		peer = p ? rcu_dereference(p->peer) : NULL;
		if (!p)		/* the kernel's tunnel does what is left: route, neighbour, header */
			dev_queue_xmit(skb);
		else if (peer)
			swsim_deliver(peer, skb);
		else
			kfree_skb(skb);
	}
}

static void count(struct run *r, const struct sk_buff *skb)
{
	u64 packets = max_t(u64, 1, skb_shinfo(skb)->gso_segs);
	unsigned int i;

	for (i = 0; i < r->nflows; i++)
		swsim_count(&r->flows[i]->count, packets, skb->len);
	for (i = 0; i < r->nconns; i++)
		swsim_count(&r->conns[i]->count, packets, skb->len);
}

static bool run(struct run *r, struct sk_buff *skb)
{
	bool done;

	__skb_queue_head_init(&r->out);
	done = r->skb && walk(r);
	kfree_skb(r->skb);
	if (!done) {
		__skb_queue_purge(&r->out);
		return false;
	}
	count(r, skb);
	send(r);
	return true;
}

/* For packets that come into the switch by dev; true: they are dealt with. */
bool swsim_execute(struct net_device *dev, struct sk_buff *skb)
{
	struct swsim_port *p = netdev_priv(dev);
	struct net_device *tunnel = NULL;
	struct run *r;
	bool done = false;

	if (p->kind == SW_UPLINK)
		tunnel = swsim_tunnel_find(dev_net(dev));
	if (!READ_ONCE(execute) || READ_ONCE(p->npolice) || (!READ_ONCE(p->nflows) && !tunnel))
		return false;
	r = kzalloc(sizeof(*r), GFP_ATOMIC);
	if (!r)
		return false;
	r->pf = p->pf;
	r->dev = dev;
	if (READ_ONCE(p->nflows)) {
		r->skb = copy(skb, dev);
		done = run(r, skb);
	}
	if (!done && tunnel) {
		memset(r, 0, sizeof(*r));
		r->pf = p->pf;
		r->dev = tunnel;
		r->skb = copy(skb, dev);
		if (r->skb && !decapsulate(r->skb, tunnel)) {
			kfree_skb(r->skb);
			r->skb = NULL;
		}
		done = run(r, skb);
	}
	kfree(r);
	atomic64_inc(done ? &executed : &missed);
	if (done)
		consume_skb(skb);
	return done;
}

void swsim_execute_stats(struct seq_file *s)
{
	seq_printf(s, "executed %lld\nmissed %lld\n", atomic64_read(&executed), atomic64_read(&missed));
}
