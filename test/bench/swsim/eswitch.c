// SPDX-License-Identifier: GPL-2.0
/* devlink: modes, ports, reload into another namespace. */
#include <linux/module.h>
#include "swsim.h"

static bool new_uplink;
module_param(new_uplink, bool, 0644);
MODULE_PARM_DESC(new_uplink, "a change of the mode makes the uplink's netdev anew, as older drivers do");

static int swsim_fn_hw_addr_get(struct devlink_port *port, u8 *addr, int *len,
				struct netlink_ext_ack *extack)
{
	struct swsim_vf *vf = container_of(port, struct swsim_vf, dl_port);

	ether_addr_copy(addr, vf->mac);
	*len = ETH_ALEN;
	return 0;
}

static int swsim_fn_hw_addr_set(struct devlink_port *port, const u8 *addr, int len,
				struct netlink_ext_ack *extack)
{
	struct swsim_vf *vf = container_of(port, struct swsim_vf, dl_port);

	if (len != ETH_ALEN || is_multicast_ether_addr(addr))
		return -EINVAL;
	ether_addr_copy(vf->mac, addr);
	return 0;
}

static const struct devlink_port_ops swsim_vf_port_ops = {
	.port_fn_hw_addr_get = swsim_fn_hw_addr_get,
	.port_fn_hw_addr_set = swsim_fn_hw_addr_set,
};

static void swsim_rep_del(struct swsim_vf *vf)
{
	if (!vf->rep)
		return;
	swsim_netdev_del(vf->rep);
	vf->rep = NULL;
	devl_port_unregister(&vf->dl_port);
}

static int swsim_rep_add(struct swsim_pf *pf, int n)
{
	struct devlink_port_attrs attrs = {};
	struct swsim_vf *vf = &pf->vf[n];
	struct net_device *vfdev;
	int err;

	memset(&vf->dl_port, 0, sizeof(vf->dl_port));
	attrs.flavour = DEVLINK_PORT_FLAVOUR_PCI_VF;
	attrs.pci_vf.pf = PCI_FUNC(pf->pdev->devfn);
	attrs.pci_vf.vf = n;
	attrs.switch_id = pf->switch_id;
	devlink_port_attrs_set(&vf->dl_port, &attrs);
	err = devl_port_register_with_ops(pf->devlink, &vf->dl_port, n + 1, &swsim_vf_port_ops);
	if (err)
		return err;
	vf->rep = swsim_netdev_add(pf, SW_REP, n, &pf->pdev->dev, &vf->dl_port);
	if (IS_ERR(vf->rep)) {
		err = PTR_ERR(vf->rep);
		vf->rep = NULL;
		devl_port_unregister(&vf->dl_port);
		return err;
	}
	vfdev = rcu_dereference_protected(vf->dev, true);
	if (vfdev)
		swsim_link(vfdev, vf->rep);
	return 0;
}

void swsim_reps_del(struct swsim_pf *pf)
{
	int i;

	for (i = 0; i < SWSIM_MAX_VFS; i++)
		swsim_rep_del(&pf->vf[i]);
}

int swsim_reps_add(struct swsim_pf *pf)
{
	int i, err;

	for (i = 0; i < pf->num_vfs; i++) {
		err = swsim_rep_add(pf, i);
		if (err) {
			swsim_reps_del(pf);
			return err;
		}
	}
	return 0;
}

static int swsim_eswitch_mode_get(struct devlink *devlink, u16 *mode)
{
	struct swsim_pf *pf = devlink_priv(devlink);

	*mode = pf->mode;
	return 0;
}

static int swsim_eswitch_mode_set(struct devlink *devlink, u16 mode,
				  struct netlink_ext_ack *extack)
{
	struct swsim_pf *pf = devlink_priv(devlink);
	int err;

	if (mode == pf->mode)
		return 0;
	if (mode != DEVLINK_ESWITCH_MODE_SWITCHDEV && mode != DEVLINK_ESWITCH_MODE_LEGACY)
		return -EINVAL;
	if (new_uplink) {
		swsim_uplink_del(pf);
		err = swsim_uplink_add(pf);
		if (err)
			return err;
	}
	if (mode == DEVLINK_ESWITCH_MODE_SWITCHDEV) {
		WRITE_ONCE(pf->mode, mode);
		err = swsim_reps_add(pf);
		if (err) {
			WRITE_ONCE(pf->mode, DEVLINK_ESWITCH_MODE_LEGACY);
			return err;
		}
	} else {
		swsim_reps_del(pf);
		WRITE_ONCE(pf->mode, mode);
	}
	swsim_carriers(pf);
	return 0;
}

static int swsim_inline_get(struct devlink *devlink, u8 *mode)
{
	*mode = ((struct swsim_pf *)devlink_priv(devlink))->inline_mode;
	return 0;
}

static int swsim_inline_set(struct devlink *devlink, u8 mode, struct netlink_ext_ack *extack)
{
	((struct swsim_pf *)devlink_priv(devlink))->inline_mode = mode;
	return 0;
}

static int swsim_encap_get(struct devlink *devlink, enum devlink_eswitch_encap_mode *mode)
{
	*mode = ((struct swsim_pf *)devlink_priv(devlink))->encap;
	return 0;
}

static int swsim_encap_set(struct devlink *devlink, enum devlink_eswitch_encap_mode mode,
			   struct netlink_ext_ack *extack)
{
	((struct swsim_pf *)devlink_priv(devlink))->encap = mode;
	return 0;
}

static int swsim_info_get(struct devlink *devlink, struct devlink_info_req *req,
			  struct netlink_ext_ack *extack)
{
	return devlink_info_version_running_put(req, "fw.version", "1.0.0");
}

int swsim_uplink_add(struct swsim_pf *pf)
{
	struct devlink_port_attrs attrs = {};
	int err;

	memset(&pf->uplink_port, 0, sizeof(pf->uplink_port));
	attrs.flavour = DEVLINK_PORT_FLAVOUR_PHYSICAL;
	attrs.phys.port_number = PCI_FUNC(pf->pdev->devfn);
	attrs.switch_id = pf->switch_id;	/* also in legacy mode, as mlx5 does */
	devlink_port_attrs_set(&pf->uplink_port, &attrs);
	err = devl_port_register(pf->devlink, &pf->uplink_port, 0);
	if (err)
		return err;
	pf->uplink = swsim_netdev_add(pf, SW_UPLINK, 0, &pf->pdev->dev, &pf->uplink_port);
	if (IS_ERR(pf->uplink)) {
		err = PTR_ERR(pf->uplink);
		pf->uplink = NULL;
		devl_port_unregister(&pf->uplink_port);
		return err;
	}
	swsim_link(pf->uplink, pf->wire);
	return 0;
}

void swsim_uplink_del(struct swsim_pf *pf)
{
	struct net_device *dev = pf->uplink;

	if (!dev)
		return;
	WRITE_ONCE(pf->uplink, NULL);
	synchronize_net();	/* the bridge of legacy mode reads it */
	swsim_netdev_del(dev);
	devl_port_unregister(&pf->uplink_port);
}

/* "devlink dev reload ... netns NODE" moves a whole NIC into a node's netns */
static int swsim_reload_down(struct devlink *devlink, bool netns_change,
			     enum devlink_reload_action action,
			     enum devlink_reload_limit limit, struct netlink_ext_ack *extack)
{
	struct swsim_pf *pf = devlink_priv(devlink);

	/* VF netdevs stay where they are; a netns exit must never be refused */
	swsim_reps_del(pf);
	swsim_uplink_del(pf);
	return 0;
}

static int swsim_reload_up(struct devlink *devlink, enum devlink_reload_action action,
			   enum devlink_reload_limit limit, u32 *actions_performed,
			   struct netlink_ext_ack *extack)
{
	struct swsim_pf *pf = devlink_priv(devlink);
	int err;

	*actions_performed = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	err = swsim_uplink_add(pf);
	if (!err && is_switchdev(pf))
		err = swsim_reps_add(pf);
	return err;
}

const struct devlink_ops swsim_devlink_ops = {
	.eswitch_mode_get	 = swsim_eswitch_mode_get,
	.eswitch_mode_set	 = swsim_eswitch_mode_set,
	.eswitch_inline_mode_get = swsim_inline_get,
	.eswitch_inline_mode_set = swsim_inline_set,
	.eswitch_encap_mode_get	 = swsim_encap_get,
	.eswitch_encap_mode_set	 = swsim_encap_set,
	.info_get		 = swsim_info_get,
	.reload_actions		 = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT),
	.reload_down		 = swsim_reload_down,
	.reload_up		 = swsim_reload_up,
};

/* A VF's instance has nothing but its lock */
static int swsim_vf_reload_down(struct devlink *devlink, bool netns_change,
				enum devlink_reload_action action,
				enum devlink_reload_limit limit, struct netlink_ext_ack *extack)
{
	return 0;
}

static int swsim_vf_reload_up(struct devlink *devlink, enum devlink_reload_action action,
			      enum devlink_reload_limit limit, u32 *actions_performed,
			      struct netlink_ext_ack *extack)
{
	*actions_performed = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	return 0;
}

const struct devlink_ops swsim_vf_devlink_ops = {
	.reload_actions	= BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT),
	.reload_down	= swsim_vf_reload_down,
	.reload_up	= swsim_vf_reload_up,
};
