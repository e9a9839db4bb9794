package probe

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ask sends what a question says and waits for the answers.
func Ask(ctx context.Context, q Question, mtu int) Reply {
	r := Reply{Outcome: Reached, Names: map[string]int{}}
	addr, err := resolve(ctx, q)
	for range max(q.Times, 1) {
		var name string
		if err == nil {
			name, err = ask(ctx, q, addr, q.payload(mtu))
		}
		if err != nil {
			r.Outcome, r.Error = outcome(err), err.Error()
			return r
		}
		if name != "" {
			r.Names[name]++
		}
	}
	return r
}

func resolve(ctx context.Context, q Question) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(q.Host); err == nil {
		return addr, nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, fmt.Sprintf("ip%d", q.Family), q.Host)
	if err != nil {
		return netip.Addr{}, noName{err}
	}
	return found[0].Unmap(), nil
}

type noName struct{ error }

// errSilent is a ping without an answer.
var errSilent = errors.New("no answer to ping")

func outcome(err error) Outcome {
	var timeout net.Error
	switch {
	case errors.As(err, new(noName)):
		return NoName
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.ESOCKTNOSUPPORT):
		return Unsupported
	case errors.Is(err, unix.EMSGSIZE):
		return TooBig
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return Refused
	case errors.Is(err, errSilent), errors.Is(err, unix.EINPROGRESS), errors.Is(err, unix.EAGAIN), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	}
	return Failed
}

func ask(ctx context.Context, q Question, to netip.Addr, size int) (string, error) {
	end := time.Now().Add(q.Timeout)
	switch q.Protocol {
	case "icmp":
		return "", ping(ctx, q, to, size)
	case "sctp":
		conn, err := dialSCTP(netip.AddrPortFrom(to, uint16(q.Port)), q.Timeout)
		if err != nil {
			return "", err
		}
		return converse(conn, size, end)
	case "udp":
		return askUDP(ctx, q, to, size)
	}
	conn, err := (&net.Dialer{Deadline: end}).DialContext(ctx, "tcp", netip.AddrPortFrom(to, uint16(q.Port)).String())
	if err != nil {
		return "", err
	}
	if q.Silent {
		return "", conn.Close()
	}
	if q.Over > 0 {
		return converseOver(conn, size, end, q.Over)
	}
	return converse(conn, size, end)
}

// piecesPerSecond are those of bytes that are sent over a time.
const piecesPerSecond = 100

// converseOver sends the bytes in pieces, each as a packet of its own.
func converseOver(conn net.Conn, size int, end time.Time, over time.Duration) (string, error) {
	defer conn.Close() //nolint:errcheck // the answer is there
	if err := conn.SetDeadline(end); err != nil {
		return "", err
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, uint32(size))); err != nil {
		return "", err
	}
	pieces := max(1, int(over.Seconds()*piecesPerSecond))
	text, began := make([]byte, size), time.Now()
	for i := range pieces { // on a slow machine a piece comes late, and the last one in time all the same
		time.Sleep(time.Until(began.Add(over * time.Duration(i+1) / time.Duration(pieces)))) //nolint:forbidigo // packets have a rate
		if _, err := conn.Write(text[size*i/pieces : size*(i+1)/pieces]); err != nil {
			return "", err
		}
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

func converse(conn net.Conn, size int, end time.Time) (string, error) {
	defer conn.Close() //nolint:errcheck // the answer is there
	if err := conn.SetDeadline(end); err != nil {
		return "", err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(size)), make([]byte, size)...)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// sendAgain is the time after which a datagram counts as lost, as for ping.
const sendAgain = time.Second

func askUDP(ctx context.Context, q Question, to netip.Addr, size int) (string, error) {
	var refused error
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) { refused = discover(int(fd), q) })
		return errors.Join(err, refused)
	}}
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(to, uint16(q.Port)).String())
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // the answer is there
	answer := make([]byte, 1<<16)
	var n int
	err = os.ErrDeadlineExceeded
	for end := time.Now().Add(q.Timeout); errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(end); {
		if err := conn.SetDeadline(time.Now().Add(min(sendAgain, time.Until(end)))); err != nil {
			return "", err
		}
		if _, err := conn.Write(make([]byte, size)); err != nil {
			return "", err
		}
		n, err = conn.Read(answer)
	}
	if err == nil && n < size {
		err = fmt.Errorf("%d bytes came back of %d", n, size)
	}
	name, _, _ := strings.Cut(string(answer[:n]), "\n")
	return name, err
}

// discover lets the kernel make fragments, or refuse.
func discover(fd int, q Question) error {
	v4, v6 := unix.IP_PMTUDISC_DONT, unix.IPV6_PMTUDISC_DONT
	if q.DontFragment {
		v4, v6 = unix.IP_PMTUDISC_DO, unix.IPV6_PMTUDISC_DO
	}
	if q.Family == 6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, v6)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, v4)
}

// ping runs the program: ICMP of our own would need the same right and more code. It sends each second until one answer.
func ping(ctx context.Context, q Question, to netip.Addr, size int) error {
	how := "dont"
	if q.DontFragment {
		how = "do"
	}
	wait := max(1, int(q.Timeout/time.Second))
	cmd := exec.CommandContext(ctx, "ping", "-n", "-c", "1", "-w", fmt.Sprint(wait), "-M", how, "-s", fmt.Sprint(size), to.String()) //nolint:forbidigo // in a pod of a test, which runs no part of the network
	text, err := cmd.CombinedOutput()
	var code *exec.ExitError
	switch {
	case err == nil:
		return nil
	case strings.Contains(string(text), "essage too long"):
		return unix.EMSGSIZE
	case errors.As(err, &code) && code.ExitCode() == 1:
		return errSilent
	}
	return fmt.Errorf("%w: %s", err, text)
}

func dialSCTP(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	family, address := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: int(to.Port())})
	if to.Addr().Is4() {
		address.(*unix.SockaddrInet4).Addr = to.Addr().As4() //nolint:forcetypeassert // as made above
	} else {
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "sctp")
	defer file.Close() //nolint:errcheck // the connection has a copy
	limit := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, address); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}
