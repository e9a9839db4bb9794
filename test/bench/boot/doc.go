// Package boot tests in a virtual machine with systemd, udev and NetworkManager what a boot of the host does: the unit that
// an OffloadPolicy with uplinkChange AtBoot writes, the files that keep network services off devices of the network, and
// the node's address while Open vSwitch runs without an agent.
//
// Place in the data flow: its tests are compiled on the host and run as root in units of systemd, each in a boot of its
// own, over a disk that stays (`make bench-boot`, docs/bench.md). Their order is that of the boots.
package boot
