package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A kernel without SCTP passes it all the same: here both ends are raw sockets,
// which exchange the first two packets of an association. They are whole ones,
// because conntrack and NAT look into them.
const (
	sctpHeader = 12 // ports, verification tag, CRC32c
	sctpINIT   = 1
	sctpACK    = 2
	sctpABORT  = 6
	// initFixed is what an INIT and its acknowledgement have in front of their
	// parameters, chunk header included.
	initFixed      = 20
	parameterState = 7
)

// sctpPacket has one chunk. Text is the cookie of an acknowledgement: the peer
// would give it back, so it may hold anything.
type sctpPacket struct {
	from, to  uint16
	tag, init uint32
	chunk     byte
	text      string
}

func (p sctpPacket) bytes() []byte {
	out := binary.BigEndian.AppendUint16(nil, p.from)
	out = binary.BigEndian.AppendUint16(out, p.to)
	out = binary.BigEndian.AppendUint32(out, p.tag)
	out = append(out, 0, 0, 0, 0)
	length := initFixed
	if p.text != "" {
		length += 4 + len(p.text)
	}
	out = append(out, p.chunk, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(length))
	out = binary.BigEndian.AppendUint32(out, p.init)
	out = binary.BigEndian.AppendUint32(out, 65536) // window
	out = append(out, 0, 1, 0, 1)                   // streams out and in
	out = binary.BigEndian.AppendUint32(out, p.init)
	if p.text != "" {
		out = binary.BigEndian.AppendUint16(out, parameterState)
		out = binary.BigEndian.AppendUint16(out, uint16(4+len(p.text)))
		out = append(out, p.text...)
		out = append(out, make([]byte, -len(p.text)&3)...)
	}
	binary.LittleEndian.PutUint32(out[8:], crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// readSCTP refuses what a kernel would: a checksum that NAT has not adjusted.
func readSCTP(packet []byte) (sctpPacket, error) {
	if len(packet) < sctpHeader+4 {
		return sctpPacket{}, errors.New("short packet")
	}
	sum := binary.LittleEndian.Uint32(packet[8:])
	binary.LittleEndian.PutUint32(packet[8:], 0)
	if sum != crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)) {
		return sctpPacket{}, errors.New("wrong checksum")
	}
	p := sctpPacket{
		from: binary.BigEndian.Uint16(packet), to: binary.BigEndian.Uint16(packet[2:]),
		tag: binary.BigEndian.Uint32(packet[4:]), chunk: packet[sctpHeader],
	}
	if body := packet[sctpHeader:]; p.chunk != sctpABORT && len(body) >= initFixed {
		p.init = binary.BigEndian.Uint32(body[4:])
		if state := body[initFixed:]; len(state) > 4 && int(binary.BigEndian.Uint16(state[2:])) <= len(state) {
			p.text = string(state[4:binary.BigEndian.Uint16(state[2:])])
		}
	}
	return p, nil
}

// serveSCTP answers each INIT for a port with an acknowledgement that has the source address of the INIT.
func serveSCTP(text string, name []string) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for _, network := range []string{"ip4:132", "ip6:132"} {
		conn, err := net.ListenPacket(network, "")
		if err != nil {
			return err
		}
		go func() { failed <- answerSCTP(conn, uint16(port), name) }()
	}
	return <-failed
}

func answerSCTP(conn net.PacketConn, port uint16, name []string) error {
	for buffer := make([]byte, 2048); ; {
		n, peer, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		asked, err := readSCTP(buffer[:n])
		if err != nil || asked.chunk != sctpINIT || asked.to != port {
			fmt.Fprintln(os.Stderr, "ignored:", peer, asked, err)
			continue
		}
		answer := sctpPacket{from: asked.to, to: asked.from, tag: asked.init, init: 1 + rand.Uint32N(1<<31), chunk: sctpACK}
		answer.text = strings.Join(append([]string{peer.String()}, name...), " ")
		conn.WriteTo(answer.bytes(), peer)
	}
}

// dialSCTP begins an association and prints what the acknowledgement says.
func dialSCTP(address string) error {
	said, err := associate(address, timeout)
	if err == nil {
		fmt.Println(said)
	}
	return err
}

// associate sends an INIT four times a second, as UDP is asked: a lost one is
// repeated by every client of SCTP.
func associate(address string, within time.Duration) (string, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return "", err
	}
	network := "ip6:132"
	if at.IP.To4() != nil {
		network = "ip4:132"
	}
	conn, err := net.DialIP(network, nil, &net.IPAddr{IP: at.IP, Zone: at.Zone})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	sent := sctpPacket{from: uint16(20000 + rand.IntN(10000)), to: uint16(at.Port), init: 1 + rand.Uint32N(1<<31), chunk: sctpINIT}
	for end := time.Now().Add(within); time.Now().Before(end); {
		if _, err := conn.Write(sent.bytes()); err != nil {
			return "", err
		}
		conn.SetReadDeadline(time.Now().Add(timeout / 4))
		said, err := acknowledged(conn, sent)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return said, err
		}
	}
	return "", fmt.Errorf("%s: %w", address, os.ErrDeadlineExceeded)
}

// acknowledged reads what the acknowledgement of an INIT says.
func acknowledged(conn net.PacketConn, sent sctpPacket) (string, error) {
	for buffer := make([]byte, 2048); ; {
		n, _, err := conn.ReadFrom(buffer) // Read leaves the IPv4 header there
		if err != nil {
			return "", err
		}
		got, err := readSCTP(buffer[:n])
		switch {
		case err != nil:
			return "", err
		case got.from != sent.to || got.to != sent.from || got.tag != sent.init:
			continue
		case got.chunk == sctpABORT:
			return "", errors.New("refused")
		}
		return got.text, nil
	}
}
