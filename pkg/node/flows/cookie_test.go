package flows

import (
	"strconv"
	"strings"
	"testing"
)

func TestMeaning_NamesEachFlowOfTheTable(t *testing.T) {
	for key, example := range exampleFlows(t) {
		table, priority, _ := strings.Cut(key, " ")
		with := WithCookies([]string{"table=" + table + ",priority=" + priority + "," + example})[0]
		text, rest, _ := strings.Cut(strings.TrimPrefix(with, "cookie="), ",")
		number, err := strconv.ParseUint(text, 0, 64)
		if err != nil || !strings.HasPrefix(rest, "table="+table) {
			t.Fatalf("%s: %v", with, err)
		}
		if meaning, ok := Meaning(number); !ok || strings.Count(meaning, ": ") == 0 {
			t.Errorf("%s: %q", with, meaning)
		}
	}
	if with := WithCookies(Plain())[0]; with != "cookie=0x6f766e00000000,priority=0 actions=NORMAL" {
		t.Error(with)
	}
	for _, other := range []uint64{0, 0x1234abcd, 0x6f766e00000000 | 0x7fff} {
		if meaning, ok := Meaning(other); ok {
			t.Errorf("%#x is %q", other, meaning)
		}
	}
}
