package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

func pcap(order binary.AppendByteOrder, packets ...string) []byte {
	b := order.AppendUint32(nil, pcapMagic)
	b = append(b, make([]byte, 12)...)
	b = order.AppendUint32(order.AppendUint32(b, 96), 1)
	for i, p := range packets {
		b = order.AppendUint32(order.AppendUint32(b, 1000), uint32(i))
		b = order.AppendUint32(order.AppendUint32(b, uint32(len(p))), 1500)
		b = append(b, p...)
	}
	return b
}

// TestWriter_MergesPoints of both byte orders: each packet has its interface, time and lengths, and blocks end with their size.
func TestWriter_MergesPoints(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, 1<<20, "shop/web")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Copy(bytes.NewReader(pcap(binary.LittleEndian, "abcde", "f")), "pod", "sees all"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := w.Copy(bytes.NewReader(pcap(binary.BigEndian, "gh")), "representor", ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	var kinds []uint32
	var texts []string
	for b := out.Bytes(); len(b) > 0; {
		kind, size := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if size%4 != 0 || binary.LittleEndian.Uint32(b[size-4:]) != size {
			t.Fatalf("block %d of %d bytes ends with another size", kind, size)
		}
		if body := b[8:]; kind == packetBlock {
			length := binary.LittleEndian.Uint32(body[12:])
			micros := uint64(binary.LittleEndian.Uint32(body[4:]))<<32 | uint64(binary.LittleEndian.Uint32(body[8:]))
			if micros/1e6 != 1000 || binary.LittleEndian.Uint32(body[16:]) != 1500 {
				t.Errorf("time %d, length %d", micros, binary.LittleEndian.Uint32(body[16:]))
			}
			texts = append(texts, string('0'+rune(body[0]))+string(body[20:20+length]))
		}
		kinds, b = append(kinds, kind), b[size:]
	}
	if want := []uint32{sectionBlock, 1, 6, 6, 1, 6}; !slices.Equal(kinds, want) {
		t.Errorf("blocks %d, want %d", kinds, want)
	}
	if want := []string{"0abcde", "0f", "1gh"}; !slices.Equal(texts, want) {
		t.Errorf("packets %q, want %q", texts, want)
	}
	for _, text := range []string{"shop/web", "pod", "sees all", "representor"} {
		if !bytes.Contains(out.Bytes(), []byte(text)) {
			t.Errorf("no %q in the file", text)
		}
	}
}

// TestWriter_EndsAtItsSize, and refuses what is no pcap or is cut.
func TestWriter_EndsAtItsSize(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, 150, "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Copy(bytes.NewReader(pcap(binary.LittleEndian, "a", "b", "c", "d")), "pod", "")
	if !errors.Is(err, ErrFull) || n == 0 || n == 4 || out.Len() > 150 {
		t.Errorf("%d packets in %d bytes, %v", n, out.Len(), err)
	}
	for name, stream := range map[string][]byte{
		"text": []byte("tcpdump: no such device exists"), "cut": pcap(binary.LittleEndian, "abc")[:42], "huge": append(pcap(binary.LittleEndian), bytes.Repeat([]byte{255}, 16)...),
	} {
		w, err := NewWriter(&out, 1<<20, "")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := w.Copy(bytes.NewReader(stream), "pod", ""); err == nil || n != 0 {
			t.Errorf("%s: %d packets", name, n)
		}
	}
}

// TestRequest_FilterIsOneArgument, which no shell reads.
func TestRequest_FilterIsOneArgument(t *testing.T) {
	r := Request{Port: "shop_web", Address: netip.MustParseAddr("10.0.0.1"), Filter: "icmp; reboot", Count: 5, Snap: 96, Time: 2 * time.Second}
	want := []string{"capture", "pod", "shop_web", "10.0.0.1", "2", "96", "5", "icmp; reboot"}
	if got := r.Command(Pod)[3:]; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if r.Filter = ""; len(r.Command(Pod)) != 10 {
		t.Errorf("without a filter: %q", r.Command(Pod)[3:])
	}
}

// TestUnseen_NamesTheShareInHardware only where a point does not show it.
func TestUnseen_NamesTheShareInHardware(t *testing.T) {
	traffic := []v1alpha1.PodTraffic{{Port: "pf0vf3", Packets: v1alpha1.TrafficShare{Hardware: 65}}}
	for _, c := range []struct {
		at      Point
		vf      bool
		traffic []v1alpha1.PodTraffic
		want    string
	}{
		{Representor, true, traffic, "65 % of the packets of pf0vf3"},
		{Representor, true, nil, "not known"},
		{Pod, true, traffic, "RDMA"},
	} {
		if got := Unseen(c.at, c.vf, c.traffic); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.at, got, c.want)
		}
	}
	if got := Unseen(Representor, false, nil) + Unseen(Pod, false, nil); got != "" {
		t.Errorf("without a VF: %q", got)
	}
}

// TestIsWhole_NeedsAllPackets, and tcpdump's word for it.
func TestIsWhole_NeedsAllPackets(t *testing.T) {
	const printed = "tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 200 bytes\n4 packets captured\n12 packets received by filter\n0 packets dropped by kernel\n"
	for packets, want := range map[int]bool{3: false, 4: true, 12: false, 0: false} {
		if got := IsWhole(printed, packets); got != want {
			t.Errorf("%d packets: %v", packets, got)
		}
	}
	if !IsWhole("1 packet captured\n", 1) || IsWhole("tcpdump: eth0: No such device exists", 0) {
		t.Error("one packet, or none at all")
	}
}
