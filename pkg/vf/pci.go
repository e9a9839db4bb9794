package vf

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// PCIAddress is where a function sits, written 0000:03:00.1. Domains of more
// than four digits exist (Intel VMD has 10000 and up). The zero value means
// that a device is not on PCI.
type PCIAddress struct {
	Domain   uint32
	Bus      uint8
	Device   uint8
	Function uint8
	valid    bool
}

// ParsePCIAddress takes the kernel's spelling only: lower case, all digits.
func ParsePCIAddress(s string) (PCIAddress, error) {
	a, ok := scanPCIAddress(s)
	if !ok {
		return PCIAddress{}, fmt.Errorf("%q is not a PCI address", s)
	}
	return a, nil
}

// scanPCIAddress makes no error, because paths consist of names that are no
// addresses.
func scanPCIAddress(s string) (PCIAddress, bool) {
	const tail = len(":03:00.1")
	at := len(s) - tail
	if at < 4 || s[at] != ':' || s[at+3] != ':' || s[at+6] != '.' {
		return PCIAddress{}, false
	}
	var fields [4]uint64
	for i, f := range []struct {
		text string
		bits int
	}{{s[:at], 32}, {s[at+1 : at+3], 8}, {s[at+4 : at+6], 5}, {s[at+7:], 3}} {
		n, err := strconv.ParseUint(f.text, 16, f.bits)
		if err != nil {
			return PCIAddress{}, false
		}
		fields[i] = n
	}
	a := PCIAddress{uint32(fields[0]), uint8(fields[1]), uint8(fields[2]), uint8(fields[3]), true}
	return a, a.String() == s
}

// IsValid tells an address from the zero value.
func (a PCIAddress) IsValid() bool { return a.valid }

// IsZero lets encoding/json leave the zero value out.
func (a PCIAddress) IsZero() bool { return !a.valid }

func (a PCIAddress) String() string {
	if !a.valid {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Compare orders as the kernel lists: domain, bus, device, function.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(
		cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device), cmp.Compare(a.Function, b.Function))
}

// MarshalText writes the kernel's spelling.
func (a PCIAddress) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText writes, "" included.
func (a *PCIAddress) UnmarshalText(text []byte) (err error) {
	*a = PCIAddress{}
	if len(text) != 0 {
		*a, err = ParsePCIAddress(string(text))
	}
	return err
}

// ID is a vendor or device number, written 15b3.
type ID uint16

func (id ID) String() string { return fmt.Sprintf("%04x", uint16(id)) }

// MarshalText writes four hexadecimal digits.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText takes hexadecimal digits, with the 0x of sysfs or without.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0x"), 16, 16)
	if err != nil {
		return fmt.Errorf("%q is not a PCI id", text)
	}
	*id = ID(n)
	return nil
}
