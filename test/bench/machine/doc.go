// Package machine has what tests of one host on the bench share: Open vSwitch as the ovs-node pod starts it, the
// agent's part for the gateway bridge, and pings from the far end of the NIC's cable.
//
// Place in the data flow: test/bench/switchdev simulates boots in the ordinary virtual machine, and test/bench/boot
// boots one with systemd. Both start OVS and Agent and look at Pings.
package machine
