// probe is both ends of the connectivity tests: it runs in the lab's test pods.
//
//	probe serve PORT [NAME]               answers on TCP and UDP with "ADDRESS OF THE PEER [NAME]\n" and then echoes
//	probe serve-http PORT                 answers each request of HTTP with 200
//	probe serve-sctp PORT [NAME]          answers the first packet of an SCTP association with that line
//	probe dial tcp|udp ADDRESS:PORT [N [S]]   prints that first line, then sends N bytes and wants them back; S: seconds in place of one, in each of which UDP asks once
//	probe from [ADDRESS:]PORT tcp|udp ADDRESS:PORT   as dial, from a port, or an address and port, of its own
//	probe reach tcp|udp|sctp:ADDRESS:PORT...   prints those of the targets, tried at once, that answer
//	probe count N S tcp|udp|sctp:ADDRESS:PORT... asks each N times for S seconds at most, all targets at once, prints each answer behind its target and how often it came, and "lost" with each error
//	probe dial sctp ADDRESS:PORT          prints the answer of serve-sctp
//	probe stream tcp|udp ADDRESS:PORT     waits 30 s at most until it connects, and then sends a line each 10 ms for ever, prints each answer's number and delay, and a server's name
//	probe await ADDRESS:PORT              tries TCP for 30 s until it connects, prints when, in ns since 1970
//	probe push PORT                       answers one UDP packet with a packet each 10 ms for ever
//	probe pull ADDRESS:PORT               sends one UDP packet, and then only receives
//	probe late PORT                       answers each UDP packet a tenth of a second later
//	probe burst N ADDRESS:PORT            sends N UDP packets at once from one port, prints how many answers come, the last within a second
//	probe advertise LINK                  sends router advertisements of IPv6
//	probe guest ADDRESS/LENGTH|dhcp PORT [NAME]   the first process of a virtual machine: has the address, or asks for one, and serves
//	probe lease LINK                      asks for an address of IPv4 by DHCP, prints what it is given
//	probe lease6 LINK                     asks for an address of IPv6 by DHCP, prints what it is given
//	probe solicit LINK                    asks routers of IPv6 to advertise themselves, prints the first advertisement
//	probe send HEX ADDRESS:PORT           sends one UDP packet with these bytes
//	probe last ADDRESS:PORT               sends UDP each ms until a second passes without an answer, prints when the last one came
//
// dial and reach give up after a second without an answer, from after three, and the exit code of
// dial and from says so. IPv6 addresses are written in brackets.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const timeout = time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 2 && args[0] == "serve":
		return serve(args[1], args[2:])
	case len(args) == 2 && args[0] == "serve-http":
		return http.ListenAndServe(":"+args[1], http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	case len(args) >= 2 && args[0] == "serve-sctp":
		return serveSCTP(args[1], args[2:])
	case len(args) == 3 && args[0] == "dial" && args[1] == "sctp":
		return dialSCTP(args[2])
	case len(args) >= 3 && len(args) <= 5 && args[0] == "dial":
		numbers := []int{0, int(timeout / time.Second)}
		for i, text := range args[3:] {
			var err error
			if numbers[i], err = strconv.Atoi(text); err != nil {
				return err
			}
		}
		return dial(net.Dialer{Timeout: time.Duration(numbers[1]) * time.Second}, args[1], args[2], numbers[0])
	case len(args) == 4 && args[0] == "from":
		from, err := local(args[2], args[1])
		if err != nil {
			return err
		}
		return dial(net.Dialer{Timeout: 3 * timeout, LocalAddr: from}, args[2], args[3], 0)
	case len(args) >= 2 && args[0] == "reach":
		reach(args[1:])
		return nil
	case len(args) >= 4 && args[0] == "count":
		times, err := strconv.Atoi(args[1])
		seconds, wrong := strconv.Atoi(args[2])
		if err := cmp.Or(err, wrong); err != nil {
			return err
		}
		count(times, time.Duration(seconds)*time.Second, args[3:])
		return nil
	case len(args) == 3 && args[0] == "burst":
		packets, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return burst(packets, args[2])
	case len(args) == 2 && args[0] == "await":
		return await(args[1])
	case len(args) == 2 && args[0] == "late":
		return late(args[1])
	case len(args) == 2 && args[0] == "push":
		return push(args[1])
	case len(args) == 2 && args[0] == "pull":
		return pull(args[1], 0)
	case len(args) == 3 && args[0] == "pull":
		seconds, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return pull(args[1], time.Duration(seconds)*time.Second)
	case len(args) >= 3 && args[0] == "guest":
		return guest(args[1], args[2], args[3:])
	case len(args) == 2 && args[0] == "lease":
		return lease(args[1])
	case len(args) == 2 && args[0] == "lease6":
		return lease6(args[1])
	case len(args) == 2 && args[0] == "solicit":
		return solicit(args[1])
	case len(args) == 2 && args[0] == "advertise":
		return advertise(args[1])
	case len(args) == 3 && args[0] == "send":
		return send(args[1], args[2])
	case len(args) == 2 && args[0] == "last":
		return last(args[1])
	case len(args) == 3 && args[0] == "stream":
		return stream(args[1], args[2])
	}
	return errors.New("usage: probe serve|serve-sctp PORT [NAME] | serve-http PORT | dial sctp ADDRESS:PORT | dial tcp|udp ADDRESS:PORT [BYTES [SECONDS]] | from PORT tcp|udp ADDRESS:PORT | stream tcp|udp ADDRESS:PORT | reach tcp|udp|sctp:ADDRESS:PORT... | count N SECONDS tcp|udp|sctp:ADDRESS:PORT... | burst N ADDRESS:PORT | await ADDRESS:PORT | push PORT | late PORT | pull ADDRESS:PORT [SECONDS] | advertise LINK | lease LINK | lease6 LINK | solicit LINK | guest ADDRESS/LENGTH|dhcp PORT [NAME] | send HEX ADDRESS:PORT | last ADDRESS:PORT")
}

func serve(port string, name []string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	packets, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	go echoPackets(packets, name)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, greeting(conn.RemoteAddr(), name))
			io.Copy(conn, conn)
		}()
	}
}

// echoPackets answers a packet with the peer's address on a line, and the packet.
func echoPackets(packets net.PacketConn, name []string) {
	buffer := make([]byte, 65536)
	for {
		n, peer, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		answer := append([]byte(greeting(peer, name)+"\n"), buffer[:n]...)
		packets.WriteTo(answer, peer)
	}
}

// greeting is the peer's address and, if the server has one, its name.
func greeting(peer net.Addr, name []string) string {
	address, _, _ := net.SplitHostPort(peer.String())
	return strings.Join(append([]string{address}, name...), " ")
}

// local reads a port, or an address and a port; port 0 is any.
func local(network, text string) (net.Addr, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	if network == "udp" {
		return net.ResolveUDPAddr(network, text)
	}
	return net.ResolveTCPAddr(network, text)
}

func dial(dialer net.Dialer, network, address string, size int) error {
	conn, err := dialer.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	end := time.Now().Add(dialer.Timeout + time.Duration(size)*time.Microsecond)
	conn.SetDeadline(end)
	payload := bytes.Repeat([]byte("x"), size)
	// One packet is one read: the buffer must hold the largest answer.
	reader := bufio.NewReaderSize(conn, 65536)
	var line string
	if network == "udp" {
		payload = append([]byte("hello "), payload...)
		line, err = repeat(conn, reader, payload, end)
	} else {
		line, err = reader.ReadString('\n')
	}
	if err != nil {
		return err
	}
	fmt.Print(line)
	if network == "tcp" {
		go conn.Write(payload)
	}
	got := make([]byte, len(payload))
	if _, err := io.ReadFull(reader, got); err != nil {
		return fmt.Errorf("reading %d bytes back: %w", len(payload), err)
	}
	if !bytes.Equal(got, payload) {
		return errors.New("the bytes that came back are others")
	}
	return nil
}

// repeat sends a packet each second until its answer comes, whose first line it gives.
func repeat(conn net.Conn, reader *bufio.Reader, packet []byte, end time.Time) (string, error) {
	for {
		if _, err := conn.Write(packet); err != nil {
			return "", err
		}
		next := time.Now().Add(timeout)
		if next.After(end) {
			next = end
		}
		conn.SetReadDeadline(next)
		line, err := reader.ReadString('\n')
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(end) {
			conn.SetReadDeadline(end)
			return line, err
		}
	}
}

func reach(targets []string) {
	each(targets, func(target string) {
		if _, err := answers(target, timeout); err == nil {
			fmt.Println(target)
		}
	})
}

func count(times int, within time.Duration, targets []string) {
	each(targets, func(target string) {
		said := map[string]int{}
		for range times {
			line, err := answers(target, within)
			if err != nil {
				line = "lost " + err.Error()
			}
			said[line]++
		}
		for line, n := range said {
			fmt.Println(target, n, line)
		}
	})
}

func each(targets []string, do func(target string)) {
	var all sync.WaitGroup
	for _, target := range targets {
		all.Go(func() { do(target) })
	}
	all.Wait()
}

// answers gives the first line; it asks four times a second in UDP, which may lose
// packets.
func answers(target string, within time.Duration) (string, error) {
	network, address, _ := strings.Cut(target, ":")
	if network == "sctp" {
		return associate(address, within)
	}
	conn, err := net.DialTimeout(network, address, within)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	end := time.Now().Add(within)
	reader := bufio.NewReader(conn)
	for {
		wait := end
		if network == "udp" {
			conn.Write([]byte("hello\n"))
			wait = time.Now().Add(timeout / 4)
		}
		conn.SetReadDeadline(wait)
		line, err := reader.ReadString('\n')
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end) {
			return strings.TrimSpace(line), err
		}
	}
}

// stream keeps one connection (or one UDP flow) alive: a gap of answers is seen
// as a large delay, a connection that broke ends it.
func stream(network, address string) error {
	conn, err := net.DialTimeout(network, address, timeout)
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); {
		time.Sleep(timeout / 10)
		conn, err = net.DialTimeout(network, address, timeout)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		for i := 0; ; i++ {
			fmt.Fprintf(conn, "%d %d\n", i, time.Now().UnixMilli())
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			var number, sent int64
			if n, _ := fmt.Sscan(lines.Text(), &number, &sent); n == 2 {
				fmt.Println(number, time.Now().UnixMilli(), time.Now().UnixMilli()-sent)
			} else if _, name, ok := strings.Cut(lines.Text(), " "); ok {
				fmt.Println("server", name)
			}
		}
		if network != "udp" { // a UDP client continues while no server listens
			return lines.Err()
		}
	}
}

// await begins a connection every two milliseconds, and ends an attempt after a second. TCP retransmits a lost first
// packet after a second, and an accepted connection may take long on a busy machine. await uses sockets directly,
// because Go's dialer takes half a millisecond of processor time.
func await(address string) error {
	const interval = 2 * time.Millisecond
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fmt.Println("asking")
	var asked []unix.PollFd
	for next, end := time.Now(), time.Now().Add(30*time.Second); next.Before(end); {
		if len(asked) == int(timeout/interval) {
			unix.Close(int(asked[0].Fd))
			asked = asked[1:]
		}
		fd, err := ask(to)
		if err != nil {
			return err
		}
		next = time.Now().Add(interval)
		var connected bool
		asked, connected, err = answered(append(asked, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}), next)
		if err != nil {
			return err
		}
		if connected {
			fmt.Println(time.Now().UnixNano())
			return nil
		}
	}
	return fmt.Errorf("%s: no connection", address)
}

// ask begins to connect.
func ask(to netip.AddrPort) (int, error) {
	family, port := unix.AF_INET, int(to.Port())
	var peer unix.Sockaddr
	if to.Addr().Is4() {
		peer = &unix.SockaddrInet4{Port: port, Addr: to.Addr().As4()}
	} else {
		family, peer = unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: to.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, peer); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// answered waits until one of the sockets is connected, or until a moment, and
// closes those that are refused.
func answered(asked []unix.PollFd, until time.Time) (left []unix.PollFd, connected bool, err error) {
	for {
		wait := unix.NsecToTimespec(max(0, time.Until(until)).Nanoseconds())
		n, err := unix.Ppoll(asked, &wait, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 || err != nil {
			return asked, false, err
		}
		asked = slices.DeleteFunc(asked, func(s unix.PollFd) bool {
			if s.Revents == 0 {
				return false
			}
			code, err := unix.GetsockoptInt(int(s.Fd), unix.SOL_SOCKET, unix.SO_ERROR)
			connected = connected || err == nil && code == 0
			unix.Close(int(s.Fd))
			return true
		})
		if connected {
			return asked, true, nil
		}
	}
}

// push sends to each peer for ever, whatever becomes of it.
func push(port string) error {
	var peers sync.Map
	return onPackets(port, func(packets net.PacketConn, peer net.Addr) {
		if _, known := peers.LoadOrStore(peer.String(), true); known {
			return
		}
		for {
			packets.WriteTo([]byte("more\n"), peer)
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// late is a server whose clients can send again before they have an answer.
func late(port string) error {
	return onPackets(port, func(packets net.PacketConn, peer net.Addr) {
		time.Sleep(timeout / 10)
		packets.WriteTo([]byte("late\n"), peer)
	})
}

// onPackets answers each packet that comes to a port, however long that takes.
func onPackets(port string, answer func(packets net.PacketConn, peer net.Addr)) error {
	packets, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	for buffer := make([]byte, 1500); ; {
		_, peer, err := packets.ReadFrom(buffer)
		if err != nil {
			return err
		}
		go answer(packets, peer)
	}
}

// pull is the other end of push: its kernel counts what comes. It asks once, or again
// after each interval.
func pull(address string, interval time.Duration) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("begin\n")); err != nil {
		return err
	}
	if interval > 0 {
		go func() {
			for range time.Tick(interval) {
				conn.Write([]byte("go on\n"))
			}
		}()
	}
	for buffer := make([]byte, 1500); ; {
		if _, err := conn.Read(buffer); err != nil {
			return err
		}
	}
}

// burst does not wait for the answer to the first packet before it sends the others.
func burst(packets int, address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range packets {
		if _, err := conn.Write([]byte("hello\n")); err != nil {
			return err
		}
	}
	conn.SetReadDeadline(time.Now().Add(timeout))
	answers := 0
	for buffer := make([]byte, 1500); answers < packets; answers++ {
		if _, err := conn.Read(buffer); err != nil {
			break
		}
	}
	fmt.Println(answers)
	return nil
}

// send waits for no answer.
func send(text, address string) error {
	payload, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(payload)
	return err
}

// last is one UDP flow whose end is looked for.
func last(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		for {
			fmt.Fprintln(conn, "still there?")
			time.Sleep(time.Millisecond)
		}
	}()
	var answered time.Time
	for buffer := make([]byte, 1500); ; answered = time.Now() {
		conn.SetReadDeadline(time.Now().Add(timeout))
		if _, err := conn.Read(buffer); err != nil {
			break
		}
		if answered.IsZero() {
			fmt.Println("asking")
		}
	}
	if answered.IsZero() {
		return fmt.Errorf("%s: no answer at all", address)
	}
	fmt.Println(answered.UnixNano())
	return nil
}
