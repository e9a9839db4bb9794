package setup

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Devices asks and changes NICs; *netdev.Devices is one.
type Devices interface {
	SetEswitchMode(address, mode string) error
	SetHWTC(link string, on bool) error
	Eswitch(address string) (netdev.Eswitch, error)
}

// Kernel is the NIC of a Runner, and that of an uplink.Mover.
type Kernel struct {
	Devices
	sysfs string
	// timeout is how long a change of the mode may take, pause the time between two questions for the mode.
	timeout, pause time.Duration
}

// NewKernel makes a Kernel; sysfs is where that is mounted.
func NewKernel(devices Devices, sysfs string) Kernel {
	return Kernel{Devices: devices, sysfs: sysfs, timeout: 5 * time.Minute, pause: time.Second}
}

// SetVFs sets the number of VFs.
func (k Kernel) SetVFs(address string, n int) error { return netdev.SetVFs(k.sysfs, address, n) }

// SetEswitchMode waits for the end of a change that takes longer than the socket waits for its answer: the kernel goes
// on with the change, and tells no mode before the end.
func (k Kernel) SetEswitchMode(address, mode string) error {
	err := k.Devices.SetEswitchMode(address, mode)
	for begin := time.Now(); errors.Is(err, unix.EAGAIN) && time.Since(begin) < k.timeout; {
		now, unknown := k.Eswitch(address)
		switch {
		case unknown != nil:
			<-time.After(k.pause)
		case now.Mode == mode:
			return nil
		default:
			return err
		}
	}
	return err
}
