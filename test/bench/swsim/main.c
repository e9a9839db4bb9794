// SPDX-License-Identifier: GPL-2.0
/* PCI functions, and what debugfs shows. */
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include "swsim.h"

static struct pci_driver swsim_driver;
static struct dentry *swsim_ddir;
static DEFINE_IDA(swsim_ida);
u8 swsim_rand[2];

static bool one_card;
module_param(one_card, bool, 0644);
MODULE_PARM_DESC(one_card, "NICs that the driver takes are ports of one card, whose switch id they have");

static bool vf_devlink;
module_param(vf_devlink, bool, 0644);
MODULE_PARM_DESC(vf_devlink, "VFs that the driver takes have a devlink instance each, as with mlx5");

static int ports_show(struct seq_file *s, void *v)
{
	struct swsim_pf *pf = s->private;
	struct net_device *dev;
	int i;

	devl_lock(pf->devlink);
	rtnl_lock();
	if (pf->uplink)
		seq_printf(s, "uplink %s wire=%s\n", pf->uplink->name,
			   pf->wire->name);
	for (i = 0; i < pf->num_vfs; i++) {
		dev = rtnl_dereference(pf->vf[i].dev);
		seq_printf(s, "vf %d pci=%s netdev=%s rep=%s\n", i,
			   pf->vf[i].pdev ? pci_name(pf->vf[i].pdev) : "-",
			   dev ? dev->name : "-", pf->vf[i].rep ? pf->vf[i].rep->name : "-");
	}
	rtnl_unlock();
	devl_unlock(pf->devlink);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ports);

/* hold_vfs: 1 takes the locks of the VFs' instances, as drivers do that start; 0 gives them back */
static int swsim_hold(void *data)
{
	struct swsim_pf *pf = data;
	int i;

	for (i = 0; i < pf->num_vfs; i++)
		if (pf->vf[i].devlink)
			devl_lock(pf->vf[i].devlink);
	complete(&pf->held);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ);
	for (i = 0; i < pf->num_vfs; i++)
		if (pf->vf[i].devlink)
			devl_unlock(pf->vf[i].devlink);
	return 0;
}

static int hold_set(void *data, u64 on)
{
	struct swsim_pf *pf = data;
	struct task_struct *holder;
	int err = 0;

	mutex_lock(&pf->hold_mutex);
	if (!on && pf->holder) {
		kthread_stop(pf->holder);
		pf->holder = NULL;
	} else if (on && !pf->holder) {
		reinit_completion(&pf->held);
		holder = kthread_run(swsim_hold, pf, DRV "_hold");
		if (IS_ERR(holder)) {
			err = PTR_ERR(holder);
		} else {
			pf->holder = holder;
			wait_for_completion(&pf->held);
		}
	}
	mutex_unlock(&pf->hold_mutex);
	return err;
}
DEFINE_DEBUGFS_ATTRIBUTE(hold_fops, NULL, hold_set, "%llu\n");

static int swsim_sriov_configure(struct pci_dev *pdev, int n)
{
	struct swsim_pf *pf = pci_get_drvdata(pdev);
	int err = 0;

	if (n > SWSIM_MAX_VFS)
		return -ERANGE;
	if (n) {
		devl_lock(pf->devlink);
		pf->num_vfs = n;
		if (is_switchdev(pf))
			err = swsim_reps_add(pf);
		devl_unlock(pf->devlink);
		if (!err)
			err = pci_enable_sriov(pdev, n);
		if (!err)
			return n;
	} else {
		hold_set(pf, 0);
		pci_disable_sriov(pdev);
	}
	devl_lock(pf->devlink);
	swsim_reps_del(pf);
	pf->num_vfs = 0;
	memset(pf->vf, 0, sizeof(pf->vf));
	devl_unlock(pf->devlink);
	return err;
}

static int swsim_vf_probe(struct pci_dev *pdev)
{
	struct swsim_pf *pf = pci_iov_get_pf_drvdata(pdev, &swsim_driver);
	int n = pci_iov_vf_id(pdev);
	struct net_device *dev;
	struct swsim_vf *vf;

	if (IS_ERR_OR_NULL(pf) || n < 0 || n >= SWSIM_MAX_VFS)
		return -ENODEV;
	devl_lock(pf->devlink);
	vf = &pf->vf[n];
	vf->pdev = pdev;
	dev = swsim_netdev_add(pf, SW_VF, n, &pdev->dev, NULL);
	if (IS_ERR(dev)) {
		devl_unlock(pf->devlink);
		return PTR_ERR(dev);
	}
	pci_set_drvdata(pdev, pf);
	rcu_assign_pointer(vf->dev, dev);
	if (vf->rep)
		swsim_link(dev, vf->rep);
	devl_unlock(pf->devlink);
	if (vf_devlink) {
		vf->devlink = devlink_alloc_ns(&swsim_vf_devlink_ops, 0,
					       devlink_net(pf->devlink), &pdev->dev);
		if (vf->devlink)
			devlink_register(vf->devlink);
	}
	return 0;
}

static void swsim_vf_remove(struct pci_dev *pdev)
{
	struct swsim_pf *pf = pci_get_drvdata(pdev);
	struct swsim_vf *vf = &pf->vf[pci_iov_vf_id(pdev)];
	struct net_device *dev;

	if (vf->devlink) {
		devlink_unregister(vf->devlink);
		devlink_free(vf->devlink);
		vf->devlink = NULL;
	}
	devl_lock(pf->devlink);
	dev = rcu_dereference_protected(vf->dev, true);
	RCU_INIT_POINTER(vf->dev, NULL);
	synchronize_net();
	if (dev)
		swsim_netdev_del(dev);
	vf->pdev = NULL;
	devl_unlock(pf->devlink);
}

static int swsim_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct devlink *devlink;
	struct swsim_pf *pf;
	int err;

	if (pdev->is_virtfn)
		return swsim_vf_probe(pdev);

	err = pci_enable_device(pdev);
	if (err)
		return err;
	devlink = devlink_alloc(&swsim_devlink_ops, sizeof(*pf), &pdev->dev);
	if (!devlink) {
		err = -ENOMEM;
		goto err_disable;
	}
	pf = devlink_priv(devlink);
	pf->pdev = pdev;
	pf->devlink = devlink;
	pf->mode = DEVLINK_ESWITCH_MODE_LEGACY;
	pf->inline_mode = DEVLINK_ESWITCH_INLINE_MODE_NONE;
	pf->encap = DEVLINK_ESWITCH_ENCAP_MODE_BASIC;
	mutex_init(&pf->hold_mutex);
	init_completion(&pf->held);
	pf->idx = ida_alloc_max(&swsim_ida, 63, GFP_KERNEL);
	if (pf->idx < 0) {
		err = pf->idx;
		goto err_devlink;
	}
	pf->switch_id.id_len = 8;
	pf->switch_id.id[0] = 0x02;
	pf->switch_id.id[1] = 0x53;
	pf->switch_id.id[2] = swsim_rand[0];
	pf->switch_id.id[3] = swsim_rand[1];
	pf->switch_id.id[6] = one_card ? 0 : pf->idx;
	pf->switch_id.id[7] = 1;
	pci_set_drvdata(pdev, pf);

	devl_lock(devlink);
	pf->wire = swsim_netdev_add(pf, SW_WIRE, 0, NULL, NULL);
	if (IS_ERR(pf->wire)) {
		err = PTR_ERR(pf->wire);
		goto err_unlock;
	}
	err = devl_register(devlink);
	if (err)
		goto err_wire;
	err = swsim_uplink_add(pf);
	if (err)
		goto err_unregister;
	devl_unlock(devlink);

	pf->ddir = debugfs_create_dir(pci_name(pdev), swsim_ddir);
	debugfs_create_file("ports", 0400, pf->ddir, pf, &ports_fops);
	debugfs_create_file("hold_vfs", 0200, pf->ddir, pf, &hold_fops);
	return 0;

err_unregister:
	devl_unregister(devlink);
err_wire:
	swsim_netdev_del(pf->wire);
err_unlock:
	devl_unlock(devlink);
	ida_free(&swsim_ida, pf->idx);
err_devlink:
	devlink_free(devlink);
err_disable:
	pci_disable_device(pdev);
	return err;
}

static void swsim_remove(struct pci_dev *pdev)
{
	struct swsim_pf *pf = pci_get_drvdata(pdev);

	if (pdev->is_virtfn)
		return swsim_vf_remove(pdev);

	swsim_sriov_configure(pdev, 0);
	debugfs_remove_recursive(pf->ddir);
	devl_lock(pf->devlink);
	swsim_uplink_del(pf);
	devl_unregister(pf->devlink);
	swsim_netdev_del(pf->wire);
	devl_unlock(pf->devlink);
	ida_free(&swsim_ida, pf->idx);
	devlink_free(pf->devlink);
	pci_disable_device(pdev);
}

static const struct pci_device_id swsim_ids[] = {
	{ PCI_DEVICE(0x8086, 0x10c9) },	/* QEMU igb PF */
	{ PCI_DEVICE(0x8086, 0x10ca) },	/* QEMU igb VF */
	{ }				/* others through new_id or driver_override */
};
/* no MODULE_DEVICE_TABLE: only bind when loaded on purpose */

static struct pci_driver swsim_driver = {
	.name = DRV,
	.id_table = swsim_ids,
	.probe = swsim_probe,
	.remove = swsim_remove,
	.sriov_configure = swsim_sriov_configure,
};

static int __init swsim_init(void)
{
	int err;

	get_random_bytes(swsim_rand, sizeof(swsim_rand));
	swsim_match_init();
	swsim_ddir = debugfs_create_dir(DRV, NULL);
	err = swsim_offload_init(swsim_ddir);
	if (err)
		goto err_dir;
	err = pci_register_driver(&swsim_driver);
	if (err)
		goto err_offload;
	return 0;
err_offload:
	swsim_offload_exit();
err_dir:
	debugfs_remove_recursive(swsim_ddir);
	return err;
}

static void __exit swsim_exit(void)
{
	pci_unregister_driver(&swsim_driver);
	swsim_offload_exit();
	debugfs_remove_recursive(swsim_ddir);
}

module_init(swsim_init);
module_exit(swsim_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Simulated SR-IOV switchdev NIC on emulated PCI functions");
