package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrFull ends a capture that has reached its size.
var ErrFull = errors.New("the file has reached its size")

// Types of blocks and options, from the specification of pcapng.
const (
	sectionBlock   = 0x0A0D0D0A
	interfaceBlock = 1
	packetBlock    = 6
	commentOption  = 1
	nameOption     = 2
)

const (
	pcapMagic   = 0xA1B2C3D4 // microseconds
	pcapHeader  = 24
	recordBytes = 16
	maxPacket   = 262144
)

// Writer writes packets of several points into one pcapng file.
type Writer struct {
	mu     sync.Mutex
	out    io.Writer
	room   int64
	points uint32
}

// NewWriter begins a file of at most so many bytes.
func NewWriter(out io.Writer, limit int64, comment string) (*Writer, error) {
	w := &Writer{out: out, room: limit}
	body := binary.LittleEndian.AppendUint32(nil, 0x1A2B3C4D) // byte order
	body = binary.LittleEndian.AppendUint32(body, 1)          // version 1.0
	body = binary.LittleEndian.AppendUint64(body, ^uint64(0)) // length: not known
	return w, w.block(sectionBlock, options(body, option{commentOption, comment}))
}

type option struct {
	code uint16
	text string
}

func options(body []byte, list ...option) []byte {
	for _, o := range list {
		if o.text == "" {
			continue
		}
		body = binary.LittleEndian.AppendUint16(body, o.code)
		body = binary.LittleEndian.AppendUint16(body, uint16(len(o.text))) //nolint:gosec // texts are short
		body = pad(append(body, o.text...))
	}
	return append(body, 0, 0, 0, 0)
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

func (w *Writer) block(kind uint32, body []byte) error {
	body = pad(body)
	size := uint32(len(body)) + 12 //nolint:gosec // a packet has maxPacket bytes at most
	if w.room -= int64(size); w.room < 0 {
		return ErrFull
	}
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, size)
	b = append(b, body...)
	_, err := w.out.Write(binary.LittleEndian.AppendUint32(b, size))
	return err
}

// point begins an interface of the file.
func (w *Writer) point(link, snap uint32, name, comment string) (uint32, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := binary.LittleEndian.AppendUint32(nil, link&0xFFFF)
	body = binary.LittleEndian.AppendUint32(body, snap)
	w.points++
	return w.points - 1, w.block(interfaceBlock, options(body, option{nameOption, name}, option{commentOption, comment}))
}

// Copy writes the packets of a pcap stream as those of a point, until the stream ends, and counts them.
func (w *Writer) Copy(r io.Reader, name, comment string) (packets int, err error) {
	in := bufio.NewReader(r)
	var head [pcapHeader]byte
	if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
		return 0, nil // what wrote it has failed, and says why
	} else if err != nil {
		return 0, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if order.Uint32(head[:]) != pcapMagic {
		order = binary.BigEndian
	}
	if order.Uint32(head[:]) != pcapMagic {
		return 0, fmt.Errorf("%x is no pcap stream", head[:4])
	}
	point, err := w.point(order.Uint32(head[20:]), order.Uint32(head[16:]), name, comment)
	for err == nil {
		if err = w.packet(in, order, point); err == nil {
			packets++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return packets, err
}

func (w *Writer) packet(in io.Reader, order binary.ByteOrder, point uint32) error {
	var head [recordBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	length := order.Uint32(head[8:])
	if length > maxPacket {
		return fmt.Errorf("a packet of %d bytes", length)
	}
	micros := uint64(order.Uint32(head[:]))*1e6 + uint64(order.Uint32(head[4:]))
	body := binary.LittleEndian.AppendUint32(nil, point)
	body = binary.LittleEndian.AppendUint32(body, uint32(micros>>32)) //nolint:gosec // the upper half
	body = binary.LittleEndian.AppendUint32(body, uint32(micros))     //nolint:gosec // the lower half
	body = binary.LittleEndian.AppendUint32(body, length)
	body = binary.LittleEndian.AppendUint32(body, order.Uint32(head[12:]))
	data := make([]byte, length)
	if _, err := io.ReadFull(in, data); err != nil {
		return fmt.Errorf("a packet is cut: %w", io.ErrUnexpectedEOF)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.block(packetBlock, append(body, data...))
}
