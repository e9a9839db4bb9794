/* SPDX-License-Identifier: GPL-2.0 */
/*
 * swsim: a simulated SR-IOV switchdev NIC for the bench.
 *
 * It binds to real PCI functions that have an SR-IOV capability but whose own
 * datapath is not needed (QEMU's nvme with sriov_max_vfs, or igb). The PCI core
 * so gives the true sysfs; the module adds:
 *  main.c      PCI, debugfs
 *  port.c      netdevs: uplink and the far end of its cable, one per VF, representors;
 *              forwarding between a function and its representor; a bridge in legacy mode
 *  eswitch.c   devlink: modes, ports, reload into another namespace
 *  offload.c   TC rules: which are taken, and the table of them
 *  conntrack.c connections that the kernel offloads
 *  match.c     packets against rules
 *  execute.c   what the rules do to packets, past representors and software
 *
 * Locks: devlink's instance lock guards a PF and its VFs, and is taken before
 * RTNL. TC calls come under RTNL. The tables of rules and connections have a
 * mutex each for writers, and RCU for packets; the kernel's lock of a flow table
 * comes after the first mutex and before the second.
 */
#ifndef SWSIM_H
#define SWSIM_H

#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <net/devlink.h>
#include <net/flow_offload.h>
#include <net/pkt_cls.h>

#define DRV "swsim"
#define SWSIM_MAX_VFS 128

enum swsim_kind { SW_UPLINK, SW_REP, SW_VF, SW_WIRE };

struct swsim_pf;

struct swsim_port {
	struct net_device *dev;
	struct net_device __rcu *peer;
	struct swsim_pf *pf;
	enum swsim_kind kind;
	int vf;
	unsigned int nflows;	/* rules taken; RTNL */
	unsigned int npolice;	/* matchall rules: nothing is executed beside them; RTNL */
};

struct swsim_vf {
	struct net_device __rcu *dev;	/* netdev of the VF itself */
	struct net_device *rep;
	struct devlink_port dl_port;
	struct devlink *devlink;	/* its own, as with mlx5; with vf_devlink only */
	struct pci_dev *pdev;
	u8 mac[ETH_ALEN];
	u16 vlan;
	u8 qos;
	__be16 vlan_proto;
	bool spoofchk, trust;
	int link_state, min_rate, max_rate;
};

struct swsim_pf {
	struct pci_dev *pdev;
	struct devlink *devlink;
	struct netdev_phys_item_id switch_id;
	int idx;
	u16 mode;
	u8 inline_mode;
	enum devlink_eswitch_encap_mode encap;
	int num_vfs;
	struct net_device *uplink;
	struct devlink_port uplink_port;
	struct net_device *wire;
	struct dentry *ddir;
	struct task_struct *holder;	/* has the locks of the VFs' instances; hold_mutex */
	struct mutex hold_mutex;
	struct completion held;
	struct swsim_vf vf[SWSIM_MAX_VFS];
};

static inline bool is_switchdev(struct swsim_pf *pf)
{
	return READ_ONCE(pf->mode) == DEVLINK_ESWITCH_MODE_SWITCHDEV;
}

/* main.c */
extern u8 swsim_rand[2];

/* port.c */
struct swsim_port *swsim_port_get(const struct net_device *dev);
struct net_device *swsim_netdev_add(struct swsim_pf *pf, enum swsim_kind kind, int vf,
				    struct device *parent, struct devlink_port *dl_port);
void swsim_netdev_del(struct net_device *dev);
void swsim_link(struct net_device *a, struct net_device *b);
void swsim_carriers(struct swsim_pf *pf);
void swsim_deliver(struct net_device *to, struct sk_buff *skb);

/* eswitch.c */
extern const struct devlink_ops swsim_devlink_ops, swsim_vf_devlink_ops;
int swsim_uplink_add(struct swsim_pf *pf);
void swsim_uplink_del(struct swsim_pf *pf);
int swsim_reps_add(struct swsim_pf *pf);
void swsim_reps_del(struct swsim_pf *pf);

/* match.c: rules and packets in one form, so that they compare as memory */
struct swsim_key {
	struct flow_dissector_key_meta meta;
	struct flow_dissector_key_control control;
	struct flow_dissector_key_basic basic;
	struct flow_dissector_key_eth_addrs eth;
	struct flow_dissector_key_vlan vlan;
	struct flow_dissector_key_vlan cvlan;
	union {
		struct flow_dissector_key_ipv4_addrs ipv4;
		struct flow_dissector_key_ipv6_addrs ipv6;
	};
	struct flow_dissector_key_ports tp;
	struct flow_dissector_key_icmp icmp;
	struct flow_dissector_key_arp arp;
	struct flow_dissector_key_tcp tcp;
	struct flow_dissector_key_ip ip;
	struct flow_dissector_key_ct ct;
	struct flow_dissector_key_keyid enc_key_id;
	struct flow_dissector_key_control enc_control;
	union {
		struct flow_dissector_key_ipv4_addrs enc_ipv4;
		struct flow_dissector_key_ipv6_addrs enc_ipv6;
	};
	struct flow_dissector_key_ports enc_tp;
	struct flow_dissector_key_ip enc_ip;
	struct flow_dissector_key_enc_opts enc_opts;
} __aligned(sizeof(long));

#define SWSIM_KEY_LONGS (sizeof(struct swsim_key) / sizeof(long))

struct swsim_match {
	union { struct swsim_key key; unsigned long keys[SWSIM_KEY_LONGS]; };
	union { struct swsim_key mask; unsigned long masks[SWSIM_KEY_LONGS]; };
	unsigned int from, to;	/* the longs that are not masked out */
};

void swsim_match_init(void);
int swsim_match_set(struct swsim_match *m, const struct flow_rule *rule, bool meta);
void swsim_dissect(struct sk_buff *skb, struct swsim_key *key);
bool swsim_matches(const struct swsim_match *m, const struct swsim_key *key);

/* counters of what was executed */
struct swsim_count {
	atomic64_t packets, bytes;
	u64 told_packets, told_bytes;	/* by the last answer; the table's mutex */
	unsigned long used;		/* jiffies */
};

static inline void swsim_count(struct swsim_count *c, u64 packets, u64 bytes)
{
	atomic64_add(packets, &c->packets);
	atomic64_add(bytes, &c->bytes);
	WRITE_ONCE(c->used, jiffies);
}

void swsim_count_tell(struct swsim_count *c, struct flow_stats *stats);

/* conntrack.c: one table for each zone */
struct swsim_ft {
	struct list_head list;
	struct list_head conns;	/* RCU */
	struct nf_flowtable *ft;
	int refs;
	struct rcu_head rcu;
};

#define SWSIM_NAT_MAX 12	/* words that translating addresses and ports changes */

struct swsim_conn {
	struct list_head list;
	unsigned long cookie;
	struct swsim_match match;
	struct flow_dissector_key_ct state;
	unsigned int nmangle;
	struct swsim_mangle {
		enum flow_action_mangle_base base;
		u32 offset, mask, val;
	} mangle[SWSIM_NAT_MAX];
	struct swsim_count count;
	struct rcu_head rcu;
};

struct swsim_ft *swsim_ft_get(struct nf_flowtable *ft);
void swsim_ft_put(struct swsim_ft *e);
struct swsim_conn *swsim_conn_find(struct swsim_ft *e, const struct swsim_key *key);
void swsim_ct_stats(struct seq_file *s);

/* offload.c */
#define SWSIM_MAX_ACTS 32

struct swsim_act {
	enum flow_action_id id;
	union {
		int ifindex;			/* redirect, mirror */
		u32 chain;
		struct metadata_dst *tunnel;	/* encapsulate */
		struct swsim_mangle mangle;
		u32 csum;
		struct { u16 vid; __be16 proto; u8 prio; } vlan;
		struct { struct swsim_ft *ft; u16 zone; bool nat, clear; } ct;
	};
};

struct swsim_flow {
	struct hlist_node node;		/* RCU */
	struct list_head list;
	unsigned long cookie;
	struct net_device *dev;		/* not before its last rule does it go */
	u32 chain, prio;
	__be16 proto;
	struct swsim_match match;
	struct swsim_count count;
	struct rcu_head rcu;
	unsigned int nacts;
	struct swsim_act acts[SWSIM_MAX_ACTS];
};

int swsim_offload_init(struct dentry *dir);
void swsim_offload_exit(void);
int swsim_setup_tc(struct net_device *dev, enum tc_setup_type type, void *type_data);
bool swsim_is_tunnel(const struct net_device *dev);
struct swsim_flow *swsim_flow_find(const struct net_device *dev, u32 chain, __be16 proto,
				   const struct swsim_key *key);
struct net_device *swsim_tunnel_find(const struct net *net);

/* execute.c */
bool swsim_execute(struct net_device *dev, struct sk_buff *skb);
void swsim_execute_stats(struct seq_file *s);

#endif
