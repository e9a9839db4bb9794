package tcrule

import (
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
)

var update = flag.Bool("update", false, "write what is wanted again")

// TestQuestion_OfEachAction: of the kernel's dumps of rules that Open vSwitch and tc(8) made on the bench, question keeps chain,
// protocol, matches and what the actions do. It leaves out cookies, counters and times, and asks for actions of its own.
func TestQuestion_OfEachAction(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the dumps are those of a little-endian machine")
	}
	dumps, err := filepath.Glob("testdata/*.hex")
	if err != nil || len(dumps) == 0 {
		t.Fatalf("%v: %d dumps", err, len(dumps))
	}
	for _, path := range dumps {
		t.Run(filepath.Base(path), func(t *testing.T) {
			rule, err := hex.DecodeString(strings.ReplaceAll(read(t, path), "\n", ""))
			if err != nil {
				t.Fatal(err)
			}
			got, err := question(rule, 16, skipSW|verbose)
			if err != nil {
				t.Fatal(err)
			}
			text, golden := "from\n"+listed(t, rule)+"to\n"+listed(t, got), strings.TrimSuffix(path, ".hex")+".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, golden), text); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// listed has a line for each attribute.
func listed(t *testing.T, rule []byte) string {
	t.Helper()
	head := nl.DeserializeTcMsg(rule)
	text := fmt.Sprintf("  parent 0x%x handle 0x%x info 0x%x\n", head.Parent, head.Handle, head.Info)
	nested := func(path string) bool {
		switch path {
		case "2", "2.3":
			return true
		}
		levels := strings.Split(path, ".")
		return strings.HasPrefix(path, "2.3.") && (len(levels) == 3 || len(levels) == 4 && levels[3] == "2")
	}
	var list func(path string, b []byte)
	list = func(path string, b []byte) {
		attributes, err := nl.ParseRouteAttr(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range attributes {
			at := strings.TrimPrefix(fmt.Sprintf("%s.%d", path, a.Attr.Type&nl.NLA_TYPE_MASK), ".")
			if nested(at) {
				list(at, a.Value)
				continue
			}
			text += fmt.Sprintf("  %s %x\n", at, a.Value)
		}
	}
	list("", rule[nl.SizeofTcMsg:])
	return text
}
