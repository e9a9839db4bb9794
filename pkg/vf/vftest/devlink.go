package vftest

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

func (w *World) devlink(line string) error {
	head, rest, _ := strings.Cut(line, "  ")
	kind, handle, _ := strings.Cut(head, " ")
	parts := strings.Split(handle, "/")
	switch {
	case kind == "dev" && len(parts) == 2:
		w.devlinkDevice(parts[0], parts[1], rest)
		return nil
	case kind == "port" && len(parts) == 3:
		return w.devlinkPort(parts, rest)
	}
	return fmt.Errorf("neither a dev nor a port")
}

func (w *World) devlinkDevice(bus, name, rest string) {
	var d netdev.Eswitch
	for key, value := range fields(rest) {
		switch key {
		case "mode":
			d.Mode = value
		case "inline":
			d.InlineMode = value
		case "encap":
			d.EncapMode = value
		default:
			w.Kernel.Params[bus+"/"+name+"/"+key] = value
		}
	}
	w.Kernel.Eswitches[name] = d
}

func (w *World) devlinkPort(handle []string, rest string) error {
	index, err := number(handle[2])
	if err != nil {
		return err
	}
	p := netdev.DevlinkPort{Bus: handle[0], Device: handle[1], Index: *index}
	for key, value := range fields(rest) {
		var err error
		switch key {
		case "flavour":
			p.Flavour = netdev.Flavour(value)
		case "netdev":
			p.Netdev = value
		case "controller":
			p.Controller, err = number(value)
		case "pf":
			p.PF, err = number(value)
		case "number":
			p.Number, err = number(value)
		case "external":
			external := value == "true"
			p.External = &external
		case "mac":
			p.Function.MAC, err = net.ParseMAC(value)
		case "state":
			p.Function.Active = strings.HasPrefix(value, "active")
			p.Function.Attached = strings.HasSuffix(value, "attached")
		default:
			err = fmt.Errorf("what is %s", key)
		}
		if err != nil {
			return err
		}
	}
	w.Kernel.Ports = append(w.Kernel.Ports, p)
	return nil
}

func number(text string) (*uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	out := uint32(n)
	return &out, err
}
