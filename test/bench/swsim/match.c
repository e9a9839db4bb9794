// SPDX-License-Identifier: GPL-2.0
/* Packets against rules, with the kernel's own dissector. */
#include "swsim.h"

#define KEY(id, member) { FLOW_DISSECTOR_KEY_##id, offsetof(struct swsim_key, member), \
			  sizeof_field(struct swsim_key, member) }
static const struct { enum flow_dissector_key_id id; size_t offset, size; } keys[] = {
	KEY(META, meta),	KEY(CONTROL, control),		KEY(BASIC, basic),
	KEY(ETH_ADDRS, eth),	KEY(VLAN, vlan),		KEY(CVLAN, cvlan),
	KEY(IPV4_ADDRS, ipv4),	KEY(IPV6_ADDRS, ipv6),		KEY(PORTS, tp),
	KEY(ICMP, icmp),	KEY(ARP, arp),			KEY(TCP, tcp),
	KEY(IP, ip),		KEY(CT, ct),			KEY(ENC_KEYID, enc_key_id),
	KEY(ENC_CONTROL, enc_control), KEY(ENC_IPV4_ADDRS, enc_ipv4),
	KEY(ENC_IPV6_ADDRS, enc_ipv6), KEY(ENC_PORTS, enc_tp),	KEY(ENC_IP, enc_ip),
	KEY(ENC_OPTS, enc_opts),
};

static struct flow_dissector dissector __ro_after_init;

void __init swsim_match_init(void)
{
	struct flow_dissector_key all[ARRAY_SIZE(keys)];
	int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		all[i].key_id = keys[i].id;
		all[i].offset = keys[i].offset;
	}
	skb_flow_dissector_init(&dissector, all, ARRAY_SIZE(all));
}

/* A rule with a key that is not in the table cannot be executed. */
int swsim_match_set(struct swsim_match *m, const struct flow_rule *rule, bool meta)
{
	const struct flow_dissector *d = rule->match.dissector;
	u64 left = d->used_keys;
	int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		const void *key = rule->match.key + d->offset[keys[i].id];
		const void *mask = rule->match.mask + d->offset[keys[i].id];

		if (!dissector_uses_key(d, keys[i].id))
			continue;
		left &= ~BIT_ULL(keys[i].id);
		if (keys[i].id == FLOW_DISSECTOR_KEY_META && !meta)
			continue;
		memcpy((void *)&m->key + keys[i].offset, key, keys[i].size);
		memcpy((void *)&m->mask + keys[i].offset, mask, keys[i].size);
	}
	if (left)
		return -EOPNOTSUPP;
	m->from = SWSIM_KEY_LONGS;
	for (i = 0; i < SWSIM_KEY_LONGS; i++) {
		m->keys[i] &= m->masks[i];
		if (!m->masks[i])
			continue;
		m->from = min_t(unsigned int, m->from, i);
		m->to = i + 1;
	}
	return 0;
}

/* As cls_flower does it; the state of conntrack is the caller's to add. */
void swsim_dissect(struct sk_buff *skb, struct swsim_key *key)
{
	memset(key, 0, sizeof(*key));
	skb_flow_dissect_meta(skb, &dissector, key);
	key->meta.ingress_ifindex = skb->dev->ifindex;
	key->basic.n_proto = skb_protocol(skb, false);
	skb_flow_dissect_tunnel_info(skb, &dissector, key);
	skb_flow_dissect(skb, &dissector, key, FLOW_DISSECTOR_F_STOP_BEFORE_ENCAP);
}

bool swsim_matches(const struct swsim_match *m, const struct swsim_key *key)
{
	const unsigned long *is = (const unsigned long *)key;
	unsigned int i;

	for (i = m->from; i < m->to; i++)
		if ((is[i] & m->masks[i]) != m->keys[i])
			return false;
	return true;
}
