// SPDX-License-Identifier: GPL-2.0
/* Netdevs of the NIC, and forwarding between them. */
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/module.h>
#include "swsim.h"

static bool hw_tc_default;
module_param(hw_tc_default, bool, 0644);
MODULE_PARM_DESC(hw_tc_default, "hw-tc-offload is on for new uplinks and representors");

static bool dead_uplink;
module_param(dead_uplink, bool, 0644);
MODULE_PARM_DESC(dead_uplink, "in switchdev mode no packet passes between the uplink and the cable");

static const struct net_device_ops swsim_uplink_ops, swsim_rep_ops, swsim_vf_ops, swsim_wire_ops;

/* Uplinks and representors: the ports that TC sees. */
struct swsim_port *swsim_port_get(const struct net_device *dev)
{
	if (dev->netdev_ops == &swsim_uplink_ops || dev->netdev_ops == &swsim_rep_ops)
		return netdev_priv(dev);
	return NULL;
}

void swsim_deliver(struct net_device *to, struct sk_buff *skb)
{
	unsigned int len = skb->len;

	if (dev_forward_skb(to, skb) == NET_RX_SUCCESS)
		dev_sw_netstats_rx_add(to, len);
	else
		dev_core_stats_rx_dropped_inc(to);
}

/* legacy mode: the embedded switch knows one MAC per function */
static void swsim_veb(struct swsim_port *src, struct sk_buff *skb)
{
	struct swsim_pf *pf = src->pf;
	const u8 *dst = ((struct ethhdr *)skb->data)->h_dest;
	bool mc = is_multicast_ether_addr(dst), hit = false;
	struct net_device *dev;
	struct sk_buff *c;
	int i;

	for (i = -1; i < pf->num_vfs; i++) {
		dev = i < 0 ? READ_ONCE(pf->uplink) : rcu_dereference(pf->vf[i].dev);
		if (!dev || dev == src->dev)
			continue;
		if (!mc && !ether_addr_equal(dst, dev->dev_addr) && !(dev->flags & IFF_PROMISC))
			continue;
		hit |= !mc && ether_addr_equal(dst, dev->dev_addr);
		c = skb_clone(skb, GFP_ATOMIC);
		if (c)
			swsim_deliver(dev, c);
	}
	if (src->kind != SW_WIRE && !hit && pf->wire) {
		c = skb_clone(skb, GFP_ATOMIC);
		if (c)
			swsim_deliver(pf->wire, c);
	}
	consume_skb(skb);
}

static netdev_tx_t swsim_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct swsim_port *p = netdev_priv(dev);
	unsigned int len = skb->len;
	struct net_device *peer;

	skb_tx_timestamp(skb);
	rcu_read_lock();
	if (!is_switchdev(p->pf)) {
		swsim_veb(p, skb);
		dev_sw_netstats_tx_add(dev, 1, len);
	} else {
		peer = rcu_dereference(p->peer);
		if (READ_ONCE(dead_uplink) && (p->kind == SW_UPLINK || p->kind == SW_WIRE))
			peer = NULL;
		if (peer && swsim_port_get(peer) && swsim_execute(peer, skb)) {
			dev_sw_netstats_tx_add(dev, 1, len);
		} else if (peer) {
			swsim_deliver(peer, skb);
			dev_sw_netstats_tx_add(dev, 1, len);
		} else {
			dev_core_stats_tx_dropped_inc(dev);
			kfree_skb(skb);
		}
	}
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

/* A VF has carrier when its representor is up (switchdev) or always (legacy) */
static void swsim_carrier(struct net_device *dev, struct net_device *peer)
{
	struct swsim_port *p = netdev_priv(dev);
	bool up = !is_switchdev(p->pf) || (peer && netif_running(peer));

	if (p->kind == SW_WIRE || p->kind == SW_REP)
		up = true;
	if (up)
		netif_carrier_on(dev);
	else
		netif_carrier_off(dev);
}

static int swsim_open(struct net_device *dev)
{
	struct swsim_port *p = netdev_priv(dev);
	struct net_device *peer = rtnl_dereference(p->peer);

	swsim_carrier(dev, peer);
	if (peer)
		swsim_carrier(peer, dev);
	return 0;
}

static int swsim_stop(struct net_device *dev)
{
	struct swsim_port *p = netdev_priv(dev);
	struct net_device *peer = rtnl_dereference(p->peer);
	struct swsim_port *pp;

	netif_carrier_off(dev);
	if (peer) {
		pp = netdev_priv(peer);
		if (pp->kind == SW_VF || pp->kind == SW_UPLINK)
			netif_carrier_off(peer);
	}
	return 0;
}

static int swsim_change_mtu(struct net_device *dev, int mtu)
{
	WRITE_ONCE(dev->mtu, mtu);
	return 0;
}

void swsim_link(struct net_device *a, struct net_device *b)
{
	struct swsim_port *pa = netdev_priv(a), *pb = netdev_priv(b);

	rtnl_lock();
	rcu_assign_pointer(pa->peer, b);
	rcu_assign_pointer(pb->peer, a);
	if (netif_running(a))
		swsim_carrier(a, b);
	if (netif_running(b))
		swsim_carrier(b, a);
	rtnl_unlock();
}

static int swsim_set_features(struct net_device *dev, netdev_features_t features)
{
	struct swsim_port *p = netdev_priv(dev);

	if ((dev->features & NETIF_F_HW_TC) && !(features & NETIF_F_HW_TC) && p->nflows) {
		netdev_err(dev, "Active offloaded tc filters, can't turn hw_tc_offload off\n");
		return -EINVAL;
	}
	return 0;
}

static struct swsim_vf *swsim_vf_get(struct net_device *dev, int n)
{
	struct swsim_port *p = netdev_priv(dev);

	return n >= 0 && n < p->pf->num_vfs ? &p->pf->vf[n] : NULL;
}

static int swsim_set_vf_mac(struct net_device *dev, int n, u8 *mac)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf || is_multicast_ether_addr(mac))
		return -EINVAL;
	ether_addr_copy(vf->mac, mac);	/* taken by the VF at its next probe */
	return 0;
}

static int swsim_set_vf_vlan(struct net_device *dev, int n, u16 vlan, u8 qos, __be16 proto)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf)
		return -EINVAL;
	vf->vlan = vlan;
	vf->qos = qos;
	vf->vlan_proto = proto;
	return 0;
}

static int swsim_set_vf_rate(struct net_device *dev, int n, int min, int max)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf)
		return -EINVAL;
	vf->min_rate = min;
	vf->max_rate = max;
	return 0;
}

static int swsim_set_vf_spoofchk(struct net_device *dev, int n, bool v)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf)
		return -EINVAL;
	vf->spoofchk = v;
	return 0;
}

static int swsim_set_vf_trust(struct net_device *dev, int n, bool v)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf)
		return -EINVAL;
	vf->trust = v;
	return 0;
}

static int swsim_set_vf_link_state(struct net_device *dev, int n, int v)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf)
		return -EINVAL;
	vf->link_state = v;
	return 0;
}

static int swsim_get_vf_config(struct net_device *dev, int n, struct ifla_vf_info *ivi)
{
	struct swsim_vf *vf = swsim_vf_get(dev, n);

	if (!vf)
		return -EINVAL;
	ivi->vf = n;
	ether_addr_copy(ivi->mac, vf->mac);
	ivi->vlan = vf->vlan;
	ivi->qos = vf->qos;
	ivi->vlan_proto = vf->vlan_proto ?: htons(ETH_P_8021Q);
	ivi->spoofchk = vf->spoofchk;
	ivi->trusted = vf->trust;
	ivi->linkstate = vf->link_state;
	ivi->min_tx_rate = vf->min_rate;
	ivi->max_tx_rate = vf->max_rate;
	return 0;
}

#define SWSIM_COMMON_OPS				\
	.ndo_start_xmit		= swsim_xmit,		\
	.ndo_open		= swsim_open,		\
	.ndo_stop		= swsim_stop,		\
	.ndo_set_mac_address	= eth_mac_addr,		\
	.ndo_validate_addr	= eth_validate_addr,	\
	.ndo_change_mtu		= swsim_change_mtu,	\
	.ndo_get_stats64	= dev_get_tstats64

static const struct net_device_ops swsim_uplink_ops = {
	SWSIM_COMMON_OPS,
	.ndo_setup_tc		= swsim_setup_tc,
	.ndo_set_features	= swsim_set_features,
	.ndo_set_vf_mac		= swsim_set_vf_mac,
	.ndo_set_vf_vlan	= swsim_set_vf_vlan,
	.ndo_set_vf_rate	= swsim_set_vf_rate,
	.ndo_set_vf_spoofchk	= swsim_set_vf_spoofchk,
	.ndo_set_vf_trust	= swsim_set_vf_trust,
	.ndo_set_vf_link_state	= swsim_set_vf_link_state,
	.ndo_get_vf_config	= swsim_get_vf_config,
};

static const struct net_device_ops swsim_rep_ops = {
	SWSIM_COMMON_OPS,
	.ndo_setup_tc		= swsim_setup_tc,
	.ndo_set_features	= swsim_set_features,
};

static const struct net_device_ops swsim_vf_ops = { SWSIM_COMMON_OPS };
static const struct net_device_ops swsim_wire_ops = { SWSIM_COMMON_OPS };

static void swsim_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	struct swsim_port *p = netdev_priv(dev);
	struct pci_dev *pdev = p->kind == SW_VF ? p->pf->vf[p->vf].pdev : p->pf->pdev;

	strscpy(info->driver, p->kind == SW_REP ? DRV "_rep" : DRV, sizeof(info->driver));
	strscpy(info->fw_version, "1.0.0 (" DRV ")", sizeof(info->fw_version));
	if (pdev)
		strscpy(info->bus_info, pci_name(pdev), sizeof(info->bus_info));
}

static int swsim_get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *cmd)
{
	cmd->base.speed = SPEED_25000;
	cmd->base.duplex = DUPLEX_FULL;
	cmd->base.port = PORT_OTHER;
	return 0;
}

static const struct ethtool_ops swsim_ethtool_ops = {
	.get_drvinfo		= swsim_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= swsim_get_link_ksettings,
	.get_ts_info		= ethtool_op_get_ts_info,
};

struct net_device *swsim_netdev_add(struct swsim_pf *pf, enum swsim_kind kind, int vf,
				    struct device *parent, struct devlink_port *dl_port)
{
	static const struct net_device_ops * const ops[] = {
		&swsim_uplink_ops, &swsim_rep_ops, &swsim_vf_ops, &swsim_wire_ops };
	u8 mac[ETH_ALEN] = { 0x02, 0x53, swsim_rand[0], swsim_rand[1], pf->idx << 2 | kind, vf };
	struct swsim_port *p;
	struct net_device *dev;
	int err;

	dev = alloc_netdev(sizeof(*p), kind == SW_WIRE ? DRV "w%d" : "eth%d",
			   NET_NAME_ENUM, ether_setup);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	if (kind != SW_WIRE)
		dev_net_set(dev, devlink_net(pf->devlink));
	p = netdev_priv(dev);
	p->dev = dev;
	p->pf = pf;
	p->kind = kind;
	p->vf = vf;
	dev->netdev_ops = ops[kind];
	dev->ethtool_ops = &swsim_ethtool_ops;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->priv_flags |= IFF_NO_QUEUE | IFF_LIVE_ADDR_CHANGE;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = 9978;
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA |
			 NETIF_F_GSO_SOFTWARE | NETIF_F_GSO_ENCAP_ALL | NETIF_F_RXCSUM;
	dev->hw_features = dev->features;
	dev->hw_enc_features = dev->features;
	dev->vlan_features = dev->features;
	if (kind == SW_UPLINK || kind == SW_REP) {
		dev->hw_features |= NETIF_F_HW_TC;
		if (hw_tc_default)
			dev->features |= NETIF_F_HW_TC;
	}
	eth_hw_addr_set(dev, mac);
	if (kind == SW_VF && is_valid_ether_addr(pf->vf[vf].mac))
		eth_hw_addr_set(dev, pf->vf[vf].mac);
	if (parent)
		SET_NETDEV_DEV(dev, parent);
	if (dl_port)
		SET_NETDEV_DEVLINK_PORT(dev, dl_port);
	netif_carrier_off(dev);
	err = register_netdev(dev);
	if (err) {
		free_netdev(dev);
		return ERR_PTR(err);
	}
	return dev;
}

void swsim_netdev_del(struct net_device *dev)
{
	struct swsim_port *p = netdev_priv(dev), *pp;
	struct net_device *peer;

	rtnl_lock();
	peer = rtnl_dereference(p->peer);
	if (peer) {
		pp = netdev_priv(peer);
		RCU_INIT_POINTER(pp->peer, NULL);
		RCU_INIT_POINTER(p->peer, NULL);
		if (pp->kind == SW_VF || pp->kind == SW_UPLINK)
			netif_carrier_off(peer);
	}
	unregister_netdevice(dev);
	rtnl_unlock();
	free_netdev(dev);
}

void swsim_carriers(struct swsim_pf *pf)
{
	struct net_device *dev;
	int i;

	rtnl_lock();
	for (i = 0; i < pf->num_vfs; i++) {
		dev = rtnl_dereference(pf->vf[i].dev);
		if (dev && netif_running(dev))
			swsim_carrier(dev, pf->vf[i].rep);
	}
	rtnl_unlock();
}
