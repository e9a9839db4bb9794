package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Serve answers on a port of TCP, UDP and, where the kernel has it, SCTP until the context ends.
func Serve(ctx context.Context, name string, port int) error {
	var closers []io.Closer
	failed := make(chan error, 4) // as many as there are sockets
	begin := func(listen func() (io.Closer, func() error, error), optional error) {
		socket, run, err := listen()
		switch {
		case err == nil:
			closers = append(closers, socket)
			go func() { failed <- run() }()
		case optional == nil || !errors.Is(err, optional):
			failed <- err
		}
	}
	begin(func() (io.Closer, func() error, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
		return l, func() error { return accept(l, name) }, err
	}, nil)
	for network, optional := range map[string]error{"udp4": nil, "udp6": unix.EAFNOSUPPORT} {
		begin(func() (io.Closer, func() error, error) {
			packets, err := listenUDP(ctx, network, port)
			return packets, func() error { return echo(packets, name) }, err
		}, optional)
	}
	begin(func() (io.Closer, func() error, error) {
		l, err := listenSCTP(port)
		return l, func() error { return accept(l, name) }, err
	}, unix.EPROTONOSUPPORT)
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	for _, c := range closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

func accept(l net.Listener, name string) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(conn, name)
	}
}

// serve reads a length and so many bytes, and answers with its name, or sends back what comes. What goes wrong is for the client to see.
func serve(conn net.Conn, name string) {
	defer conn.Close() //nolint:errcheck // the client has its answer, or not
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	if binary.BigEndian.Uint32(length[:]) == asLongAsItLasts {
		sendBack(conn)
		return
	}
	if _, err := io.CopyN(io.Discard, conn, int64(min(binary.BigEndian.Uint32(length[:]), most))); err != nil {
		return
	}
	_, _ = fmt.Fprintln(conn, name)
}

// sendBack sends all back that a client sends, as long as the client wants. Silence does not end the connection.
func sendBack(conn net.Conn) {
	_ = conn.SetDeadline(time.Time{})
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetKeepAlive(false)
	}
	_, _ = io.Copy(conn, conn)
}

// listenUDP has the kernel say to which of its addresses a packet came: the answer must come from there, and a node has
// several.
func listenUDP(ctx context.Context, network string, port int) (*net.UDPConn, error) {
	level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
	if network == "udp6" {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	var refused error
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), level, option, 1) })
		return errors.Join(err, refused)
	}}
	packets, err := config.ListenPacket(ctx, network, fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	return packets.(*net.UDPConn), nil //nolint:forcetypeassert // networks of UDP give no other
}

// echo answers a packet with the same one, which begins with the name.
func echo(packets *net.UDPConn, name string) error {
	buffer, control := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, controls, _, from, err := packets.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			return err
		}
		answer := make([]byte, max(n, len(name)+1))
		copy(answer, buffer[:n])
		copy(answer, name+"\n")
		_, _, _ = packets.WriteMsgUDPAddrPort(answer, source(control[:controls]), from)
	}
}

// source makes the destination of a packet the source of the next one.
func source(control []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) == unix.SizeofInet4Pktinfo:
			return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[8:12])}) // ipi_addr
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) == unix.SizeofInet6Pktinfo:
			return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])})
		}
	}
	return nil
}

func listenSCTP(port int) (net.Listener, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "sctp")
	defer file.Close() //nolint:errcheck // the listener has a copy
	if err := unix.Bind(fd, &unix.SockaddrInet6{Port: port}); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, 64); err != nil {
		return nil, err
	}
	return net.FileListener(file)
}
