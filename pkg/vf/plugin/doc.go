// Package plugin hands out VFs: it is a device plugin of the kubelet, API
// v1beta1, with one resource per pool.
//
// Place in the data flow:
//
//	vf.Node.Watch -> FromInventory -> Plugin.Update -> pools -> kubelet: ListAndWatch
//	kubelet: Allocate -> environment, character devices, device-info file
//	pkg/vf/ledger -> Claims: what is in use
//
// A device is the first pool's that it matches. One that is in use stays in the
// pool it was given from, whatever has changed since: its RDMA device is out of
// sight while a pod has it, and its PF may have got another name.
//
// The kubelet says neither which pod an allocation is for nor when it ends; so
// a device is not claimed here, but when its pod's network is made. Allocating
// one whose last pod is not yet cleared away is normal: that ADD waits, while a
// refusal here would fail the pod for good. GetPreferredAllocation names free
// devices first, so that it is rare.
//
// A starting kubelet removes all sockets in its directory and makes its own:
// watched for with inotify, and answered by serving and registering again.
// A plugin that ends harms no pod: pods keep their devices.
package plugin
