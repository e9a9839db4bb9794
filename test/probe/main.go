// probe is both ends of the connectivity tests: it runs in the lab's test pods.
//
//	probe serve PORT [NAME]               answers on TCP and UDP with "ADDRESS OF THE PEER [NAME]\n" and then echoes
//	probe serve-sctp PORT [NAME]          answers the first packet of an SCTP association with that line
//	probe dial tcp|udp ADDRESS:PORT [N [S]]   prints that first line, then sends N bytes and wants them back; S: seconds in place of one
//	probe reach tcp|udp:ADDRESS:PORT...   prints those of the targets, tried at once, that answer
//	probe dial sctp ADDRESS:PORT          prints the answer of serve-sctp
//	probe stream tcp|udp ADDRESS:PORT     sends a line each 10 ms for ever, prints each answer's number and delay, and a server's name
//	probe await ADDRESS:PORT              tries TCP for 30 s until it connects, prints when, in ns since 1970
//	probe push PORT                       answers one UDP packet with a packet each 10 ms for ever
//	probe pull ADDRESS:PORT               sends one UDP packet, and then only receives
//	probe last ADDRESS:PORT               sends UDP each ms until a second passes without an answer, prints when the last one came
//
// dial, reach and stream give up after a second without an answer, and dial's exit
// code says so. IPv6 addresses are written in brackets.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
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
		return dial(args[1], args[2], numbers[0], time.Duration(numbers[1])*time.Second)
	case len(args) >= 2 && args[0] == "reach":
		reach(args[1:])
		return nil
	case len(args) == 2 && args[0] == "await":
		return await(args[1])
	case len(args) == 2 && args[0] == "push":
		return push(args[1])
	case len(args) == 2 && args[0] == "pull":
		return pull(args[1])
	case len(args) == 2 && args[0] == "last":
		return last(args[1])
	case len(args) == 3 && args[0] == "stream":
		return stream(args[1], args[2])
	}
	return errors.New("usage: probe serve|serve-sctp PORT [NAME] | dial sctp ADDRESS:PORT | dial tcp|udp ADDRESS:PORT [BYTES [SECONDS]] | stream tcp|udp ADDRESS:PORT | reach tcp|udp:ADDRESS:PORT... | await ADDRESS:PORT | push PORT | pull ADDRESS:PORT | last ADDRESS:PORT")
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

func dial(network, address string, size int, within time.Duration) error {
	conn, err := net.DialTimeout(network, address, within)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(within + time.Duration(size)*time.Microsecond))
	payload := bytes.Repeat([]byte("x"), size)
	if network == "udp" {
		payload = append([]byte("hello "), payload...)
		if _, err := conn.Write(payload); err != nil {
			return err
		}
	}
	// One packet is one read: the buffer must hold the largest answer.
	reader := bufio.NewReaderSize(conn, 65536)
	line, err := reader.ReadString('\n')
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

func reach(targets []string) {
	var all sync.WaitGroup
	for _, target := range targets {
		all.Go(func() {
			network, address, _ := strings.Cut(target, ":")
			if answers(network, address) {
				fmt.Println(target)
			}
		})
	}
	all.Wait()
}

// answers asks four times a second in UDP, which may lose packets.
func answers(network, address string) bool {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return false
	}
	defer conn.Close()
	end := time.Now().Add(timeout)
	reader := bufio.NewReader(conn)
	for time.Now().Before(end) {
		wait := end
		if network == "udp" {
			conn.Write([]byte("hello\n"))
			wait = time.Now().Add(timeout / 4)
		}
		conn.SetReadDeadline(wait)
		_, err := reader.ReadString('\n')
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err == nil
		}
	}
	return false
}

// stream keeps one connection (or one UDP flow) alive: a gap of answers is seen
// as a large delay, a connection that broke ends it.
func stream(network, address string) error {
	conn, err := net.DialTimeout(network, address, timeout)
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
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var number, sent int64
		if n, _ := fmt.Sscan(lines.Text(), &number, &sent); n == 2 {
			fmt.Println(number, time.Now().UnixMilli(), time.Now().UnixMilli()-sent)
		} else if _, name, ok := strings.Cut(lines.Text(), " "); ok {
			fmt.Println("server", name)
		}
	}
	return lines.Err()
}

// await asks each few milliseconds and gives no attempt up for the next: the first
// packet of a connection that nobody took is repeated by TCP after a second only,
// and one that was taken may need longer than that on a busy machine.
func await(address string) error {
	fmt.Println("asking")
	connected := make(chan int64, 1)
	ask := func() {
		conn, err := net.DialTimeout("tcp", address, timeout)
		if err != nil {
			return
		}
		select {
		case connected <- time.Now().UnixNano():
		default:
		}
		conn.Close()
	}
	for end := time.After(30 * time.Second); ; {
		go ask()
		select {
		case when := <-connected:
			fmt.Println(when)
			return nil
		case <-end:
			return fmt.Errorf("%s: nobody connected", address)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// push sends to each peer for ever, whatever becomes of it.
func push(port string) error {
	packets, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	for buffer := make([]byte, 1500); ; {
		_, peer, err := packets.ReadFrom(buffer)
		if err != nil {
			return err
		}
		go func() {
			for {
				packets.WriteTo([]byte("more\n"), peer)
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
}

// pull is the other end of push: its kernel counts what comes.
func pull(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("begin\n")); err != nil {
		return err
	}
	for buffer := make([]byte, 1500); ; {
		if _, err := conn.Read(buffer); err != nil {
			return err
		}
	}
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
