package netdev

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// fakeLibrary answers from the tree what the libraries answer from a mount.
type fakeLibrary struct{ tree Sysfs }

func (f fakeLibrary) SFNumber(device string) (int, error) {
	text, err := f.attr("bus/auxiliary/devices/"+device, "sfnum")
	if err != nil {
		return -1, err
	}
	return strconv.Atoi(text)
}

func (f fakeLibrary) PF(address string) string {
	device, err := f.tree.Target("bus/pci/devices/" + address)
	if err != nil || device == "" {
		return ""
	}
	pf, err := f.tree.Target(device + "/physfn")
	if err != nil || pf == "" {
		return ""
	}
	return path.Base(pf)
}

func (f fakeLibrary) RDMADevices(address string) ([]string, error) {
	device, err := f.tree.Target("bus/pci/devices/" + address)
	if err != nil || device == "" {
		return nil, err
	}
	return f.tree.Names(device + "/infiniband")
}

func (f fakeLibrary) RDMANodes(device string) ([]string, error) {
	var nodes []string
	for _, class := range []string{"class/infiniband_mad", "class/infiniband_verbs"} {
		names, err := f.tree.Names(class)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if of, _ := f.tree.Attr(path.Join(class, name, "ibdev")); of == device {
				nodes = append(nodes, "/dev/infiniband/"+name)
			}
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}

func (f fakeLibrary) attr(link, name string) (string, error) {
	device, err := f.tree.Target(link)
	if err != nil {
		return "", err
	}
	text, err := f.tree.Attr(strings.TrimPrefix(device+"/"+name, "/"))
	if err == nil && text == "" {
		err = fmt.Errorf("%s has no %s", link, name)
	}
	return text, err
}
