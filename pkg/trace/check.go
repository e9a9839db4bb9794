package trace

import (
	"fmt"
	"net/netip"
	"strings"
)

// Check says what is wrong with a source or a target of Connection whatever the cluster has.
func Check(source, target string) error {
	kind, name, _ := strings.Cut(source, "/")
	switch {
	case kind == Outside:
		if _, err := clientsOf(name); err != nil {
			return err
		}
	case (kind != "pod" && kind != "node") || name == "":
		return errSource(source)
	}
	return checkTarget(target)
}

func checkTarget(target string) error {
	where, protocol, port, err := split(target)
	if err != nil {
		return err
	}
	kind, name, _ := strings.Cut(where, "/")
	_, err = netip.ParseAddr(where)
	switch isObject := name != "" && (kind == "pod" || kind == "svc" || kind == "node"); {
	case err != nil && !isObject:
		return errTarget(where)
	case (err == nil || kind == "node") && port == 0 && protocol != "icmp":
		return errPort(target)
	}
	return nil
}

func errSource(text string) error {
	return fmt.Errorf("%q: want pod/NAME, node/NAME or outside", text)
}

func errTarget(text string) error {
	return fmt.Errorf("%q: want pod/NAME, svc/NAME, node/NAME or an address; of a host name, the address that the pod gets for the name", text)
}

func errPort(target string) error { return fmt.Errorf("%q: want a port", target) }
