package scene

import (
	"cmp"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// The columns of a node, from left to right, and its rows.
const (
	Margin    = 16
	top       = 44
	podX      = 32
	podW      = 210
	vfX       = 282
	vfW       = 150
	portX     = 494
	portW     = 130
	bandX     = 478
	bandW     = 360
	nicX      = 892
	nicW      = 190
	sceneW    = 1098
	rowHeight = 56
	boxHeight = 40
	bandGap   = 24
	// ways into software go down beside each other
	stub    = 70
	wayGap  = 8
	maxWays = 16
	offset  = 9
)

// Node draws a node: pods and their VFs on the left, then the NIC's embedded switch and below it the software of the
// node, and the uplinks on the right. With a DPU, embedded switch and software are the DPU's.
func Node(n answer.TopologyNode) *Scene {
	s := &Scene{Width: sceneW}
	y := top
	software := softwareBand(n)
	var rows []row
	for i := range n.NICs {
		y = s.nic(&n.NICs[i], n.TrafficOmitted, y, &rows) + bandGap
	}
	software.Y = y
	s.Add(software)
	s.veths(n, software)
	for i, r := range rows {
		s.connect(r, software, portX+portW+stub+i%maxWays*wayGap)
	}
	s.Height = software.Y + software.H + 2*Margin
	s.frame(n)
	return s
}

func softwareBand(n answer.TopologyNode) Box {
	where := "on the host"
	if n.DPU != "" {
		where = "on the DPU"
	}
	return Box{ID: "software", Kind: KindSoftware, X: bandX, W: bandW, Y: top, H: rowHeight + boxHeight, Title: "software: TC, OVS", Text: []string{where}}
}

// row is a pod with a VF, and the boxes from it to the wire.
type row struct {
	pod, vf, port, band, nic Box
	traffic                  *v1alpha1.PodTraffic
}

// nic draws a NIC with the VFs that pods use, from y downwards, and gives its lower end.
func (s *Scene) nic(nic *answer.TopologyNIC, omitted, y int, rows *[]row) int {
	v := nic.VFs
	height := max(len(nic.Pods), 1)*rowHeight + rowHeight
	band := Box{
		ID: "band " + nic.Name, Kind: KindHardware, X: bandX, Y: y, W: bandW, H: height, Title: "hardware: embedded switch, " + cmp.Or(nic.Mode, "mode unknown"),
		Text: []string{fmt.Sprintf("VFs: %d used, %d reserved, %d free", v.Used, v.Reserved, v.Free)},
	}
	link := "link " + cmp.Or(nic.Link, "unknown")
	uplink := Box{
		ID: "nic " + nic.Name, Kind: KindNIC, X: nicX, Y: y + height/2 - rowHeight/2, W: nicW, H: rowHeight + 8, Title: cmp.Or(nic.Uplink, nic.Name),
		Text: append([]string{nic.Name + ", " + link}, nic.Product), Bad: len(nic.Problems) > 0 || nic.Link == "down" || nic.Link == "no-carrier",
	}
	s.Add(band, uplink)
	for i, vf := range nic.Pods {
		at := y + rowHeight + i*rowHeight
		r := row{band: band, nic: uplink, traffic: vf.Traffic}
		r.pod = Box{ID: "pod " + vf.Device, Kind: KindPod, X: podX, Y: at, W: podW, H: boxHeight, Title: vf.Pod, Text: []string{share(vf.Traffic, omitted)}, Link: "pod/" + vf.Pod}
		r.vf = Box{ID: "vf " + vf.Device, Kind: KindVF, X: vfX, Y: at, W: vfW, H: boxHeight, Title: "VF " + vf.Device, Text: []string{cmp.Or(vf.Interface, "eth0") + ", " + vf.Phase}}
		r.port = Box{ID: "port " + vf.Device, Kind: KindPort, X: portX, Y: at, W: portW, H: boxHeight, Title: "representor", Text: []string{"name not known"}}
		if vf.Traffic != nil {
			r.port.Title, r.port.Text = vf.Traffic.Port, []string{"representor"}
			r.pod.Bad = len(vf.Traffic.Outside) > 0 && vf.Traffic.Packets.Hardware < 50
		}
		s.Add(r.pod, r.vf, r.port)
		*rows = append(*rows, r)
	}
	return y + height
}

// share says it in words. omitted is the number of pods of the node whose traffic is not listed.
func share(t *v1alpha1.PodTraffic, omitted int) string {
	switch {
	case t == nil && omitted > 0:
		return "not among the worst"
	case t == nil:
		return "no traffic measured"
	}
	words := fmt.Sprintf("%d %% in hardware", t.Packets.Hardware)
	if len(t.Outside) > 0 && t.Packets.Hardware < 100 {
		words += ": " + t.Outside[0].Reason
	}
	return words
}

// connect draws the ways of a pod's packets: straight through the embedded switch, or down at x through the software.
func (s *Scene) connect(r row, software Box, x int) {
	s.Way(PlaceLink, 0, r.pod.Title+" has "+r.vf.Title, r.pod.Right(), r.vf.Left())
	if r.traffic == nil {
		s.Way(PlaceLink, 0, r.vf.Title+" has a representor", r.vf.Right(), r.port.Left())
		return
	}
	hardware := r.traffic.Packets.Hardware
	end := r.nic.Left()
	right := bandX + bandW
	s.Way(PlaceHardware, hardware, fmt.Sprintf("%s: %d %% of the packets in hardware", r.pod.Title, hardware),
		r.vf.Right(), r.port.Left(), r.port.Right(), [2]int{right, r.port.Right()[1]}, end)
	below := r.port.Right()[1] + offset
	middle := software.Y + software.H/2 + offset
	s.Way(PlaceSoftware, 100-hardware, fmt.Sprintf("%s: %d %% of the packets in software", r.pod.Title, 100-hardware),
		[2]int{r.vf.Right()[0], below}, [2]int{x, below}, [2]int{x, middle}, [2]int{right, middle}, [2]int{end[0], end[1] + 2*offset})
}

// veths draws the pods without a VF as one box: all their packets are in software.
func (s *Scene) veths(n answer.TopologyNode, software Box) {
	if n.OtherPods == nil || *n.OtherPods == 0 {
		return
	}
	box := Box{ID: "veths", Kind: KindPod, X: podX, Y: software.Y + boxHeight, W: podW, H: boxHeight, Title: Pods(*n.OtherPods) + " on veths", Text: []string{"they asked for no VF"}}
	s.Add(box)
	s.Way(PlaceSoftware, 100, box.Title+": all packets in software", box.Right(), [2]int{software.X + software.W, box.Right()[1]})
}

// Pods counts pods in words.
func Pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// frame draws the machine, or the host and its DPU.
func (s *Scene) frame(n answer.TopologyNode) {
	high := s.Height - 2*Margin
	if n.DPU == "" {
		s.Frames = []Box{{ID: "host", Kind: KindHost, X: Margin, Y: Margin, W: nicX - Margin - bandGap/2, H: high, Title: "node " + n.Node}}
		return
	}
	edge := vfX + vfW + (bandX-vfX-vfW)/2
	s.Frames = []Box{
		{ID: "host", Kind: KindHost, X: Margin, Y: Margin, W: edge - Margin - 8, H: high, Title: "host " + n.Node},
		{ID: "dpu", Kind: KindDPU, X: edge + 4, Y: Margin, W: sceneW - edge - 4 - Margin/2, H: high, Title: "DPU, " + n.DPU, Bad: n.DPU != "ready"},
	}
}

// OnVeth draws a pod without a VF.
func OnVeth(n answer.TopologyNode, pod string) *Scene {
	s := &Scene{Width: sceneW}
	software := softwareBand(n)
	box := Box{ID: "pod", Kind: KindPod, X: podX, Y: software.Y + boxHeight, W: podW, H: boxHeight, Title: pod, Text: []string{"on a veth"}}
	s.Add(software, box)
	s.Way(PlaceSoftware, 100, pod+": all packets in software", box.Right(), [2]int{software.X + software.W, box.Right()[1]})
	s.Height = software.Y + software.H + 2*Margin
	s.frame(n)
	return s
}
