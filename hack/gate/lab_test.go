package main

import (
	"slices"
	"testing"
)

// TestStuck_AreProcessesThatDoNotRunOn: of those that run or sleep, the programs of a node are there.
func TestStuck_AreProcessesThatDoNotRunOn(t *testing.T) {
	const ps = `STAT   PID     ELAPSED WCHAN                    COMMAND
Ss       1       10:02 do_wait                  init
Ssl    112       10:02 futex_wait               kubelet --config /etc/kubernetes/kubelet.json
Dsl    113       10:01 __refrigerator           ovs-vswitchd unix:/run/openvswitch/db.sock
Tl     169       09:59 do_signal_stop           ovn-offload-agent --mode=full
Zs     170       09:59 -                        [nft] <defunct>
R+     171       00:00 -                        ps axo
`
	want := []string{
		"Ssl    112       10:02 futex_wait               kubelet --config /etc/kubernetes/kubelet.json",
		"Dsl    113       10:01 __refrigerator           ovs-vswitchd unix:/run/openvswitch/db.sock",
		"Tl     169       09:59 do_signal_stop           ovn-offload-agent --mode=full",
		"Zs     170       09:59 -                        [nft] <defunct>",
	}
	if got := stuck(ps); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
