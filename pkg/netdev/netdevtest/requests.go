package netdevtest

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Request is a message as a netlink socket has sent it to the kernel.
type Request struct {
	Protocol int // such as unix.NETLINK_ROUTE
	syscall.NetlinkMessage
}

// Requests runs f on a thread in a namespace and gives the netlink requests that the thread sends. The bytes are those
// of the system call: a filter of seccomp stops the thread in each sendto(2), and another thread reads its memory. A
// thread that f makes is not recorded, so f has to open the namespace as its own, with the path "".
func Requests(t testing.TB, path string, f func()) []Request {
	t.Helper()
	var r recorder
	err := Inside(path, func() error {
		if err := r.start(); err != nil {
			return os.NewSyscallError("seccomp", err)
		}
		f()
		return nil
	})
	r.stop()
	if err != nil {
		t.Fatalf("recording requests: %v", err)
	}
	if r.err != nil {
		t.Fatalf("recording requests: %v", r.err)
	}
	return r.requests
}

// OfType gives the requests of a protocol and a type of message.
func OfType(requests []Request, protocol int, kind uint16) (of []Request) {
	for _, r := range requests {
		if r.Protocol == protocol && r.Header.Type == kind {
			of = append(of, r)
		}
	}
	return of
}

// recorder reads the notifications of a filter of seccomp; seccomp_unotify(2).
type recorder struct {
	listener int
	ended    atomic.Bool
	reader   sync.WaitGroup
	requests []Request
	err      error
}

type notification struct {
	id         uint64
	pid, flags uint32
	call, arch uint32
	pointer    uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// start puts the filter on this thread alone.
func (r *recorder) start() error {
	const load, equal, result, proceed = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ, unix.BPF_RET, 1
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the call
		{Code: equal, K: unix.SYS_SENDTO, Jf: 1},
		{Code: result, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Without the second flag, a signal of Go's scheduler would have the call notified again.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	r.listener = int(fd)
	r.reader.Go(func() {
		defer func() { _ = unix.Close(r.listener) }()
		for !r.ended.Load() {
			ready, err := unix.Poll([]unix.PollFd{{Fd: int32(r.listener), Events: unix.POLLIN}}, 20)
			if err != nil || ready == 0 {
				continue
			}
			var n notification
			if r.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != nil {
				continue // the thread has ended
			}
			r.note(n)
			if err := r.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&response{id: n.id, flags: proceed})); err != nil {
				r.err = err
			}
		}
	})
	return nil
}

func (r *recorder) stop() {
	r.ended.Store(true)
	r.reader.Wait()
}

func (r *recorder) ioctl(request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(r.listener), uintptr(request), uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// note keeps what a netlink socket sends.
func (r *recorder) note(n notification) {
	socket, length := int(n.args[0]), int(n.args[2])
	if domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_NETLINK || length == 0 {
		return
	}
	protocol, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil {
		r.err = err
		return
	}
	raw := make([]byte, length)
	if err := readMemory(raw, n.args[1]); err != nil {
		r.err = err
		return
	}
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		r.err = err
	}
	for _, m := range messages {
		r.requests = append(r.requests, Request{Protocol: protocol, NetlinkMessage: m})
	}
}

// readMemory reads the process' own memory at an address. Not each kernel has process_vm_readv(2).
func readMemory(into []byte, address uint64) error {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	_, err = memory.ReadAt(into, int64(address))
	return err
}
