package offload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func TestAlerts_AreRepeatedAfterInterval(t *testing.T) {
	a := Alerts{Again: 10 * time.Minute}
	bad := Finding{Pod: contract.PodOwner("d", "bad"), Port: "eth4"}
	second := Finding{Pod: bad.Pod, Port: "eth5"}
	other := Finding{Pod: contract.PodOwner("d", "other")}
	var story []string
	for minute, findings := range [][]Finding{
		0: {bad, second}, 1: {bad, other}, 2: nil, 3: {bad}, 4: nil, 5: nil, 6: nil, 7: {bad},
		8: {bad}, 9: {bad}, 10: {bad}, 11: {bad}, 12: {bad}, 13: {bad}, 14: {bad}, 15: {bad}, 16: {bad}, 17: {bad},
	} {
		raised, cleared := a.Update(time.Unix(0, 0).Add(time.Duration(minute)*time.Minute), findings)
		for _, f := range raised {
			story = append(story, fmt.Sprintf("%d raise %s %s", minute, f.Pod.Name, f.Port))
		}
		for _, pod := range cleared {
			story = append(story, fmt.Sprintf("%d clear %s", minute, pod.Name))
		}
	}
	want := "0 raise bad eth4; 1 raise other ; 3 clear other; 5 clear bad; 7 raise bad eth4; 17 raise bad eth4"
	if got := strings.Join(story, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
