package agent

import (
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/preflight"
)

// Preflight says whether the node is fit for the network. It needs neither OVS nor a cluster, and changes nothing.
func Preflight(cfg Config, root string, hostOVS bool) (preflight.Report, error) {
	m, err := openMachine(filepath.Join(root, sysfs), cfg.Logger)
	if err != nil {
		return preflight.Report{}, err
	}
	defer m.close()
	facts, err := preflight.Observe(preflight.Config{
		Gateway: cfg.Node, Root: root, Proc: "/proc", ConfDir: cfg.Install.Conf.Path, HostOVS: hostOVS,
	}, preflight.Host{NS: m.netns, NIC: m.nic})
	if err != nil {
		return preflight.Report{}, err
	}
	return preflight.Check(facts), nil
}

// nic is what the inventory says of the device under a link.
func (m *machine) nic(link string) preflight.NIC {
	driver, firmware := netdev.Firmware(m.kernel.Devices, link)
	found := preflight.NIC{Driver: driver, Firmware: firmware}
	inventory, err := m.inventory.Read()
	if err != nil {
		return found
	}
	for _, pf := range inventory.PFs {
		for _, port := range pf.Ports {
			if port.Name == link {
				found.TotalVFs, found.Mode = pf.TotalVFs, string(pf.Eswitch.Mode)
				found.Product, found.Limit = pf.ProductName, pf.Class.Limit
			}
		}
	}
	return found
}
