package inject

import (
	"errors"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// TestSend_LeavesEventsOnBothEnds with the user's name. Without the first one nothing is sent, and a pod to which nothing came
// has none.
func TestSend_LeavesEventsOnBothEnds(t *testing.T) {
	pods := []corev1.Pod{pod("web", "w1", "10.0.1.5"), pod("db", "w2", "10.0.2.6")}
	plan, err := NewPlan(connection("udp", "10.0.1.5", "10.0.2.6:80"), &trace.Computed{}, pods, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		refuses bool
		to      string
		want    []string
	}{{true, "10.0.2.6", nil}, {false, "10.0.2.6", []string{"web", "db"}}, {false, "", []string{"web"}}} {
		client, nodes := fake.NewClientset(), &nodesOf{pod: c.to}
		client.PrependReactor("create", "selfsubjectreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "jane"}}}, nil
		})
		var names []string
		client.PrependReactor("create", "events", func(action k8stesting.Action) (bool, runtime.Object, error) {
			e := action.(k8stesting.CreateAction).GetObject().(*corev1.Event)
			if c.refuses {
				return true, nil, errors.New("forbidden")
			}
			if strings.HasSuffix(e.Message, "in the name of pod/shop/web to pod/shop/db:80/udp, packets: 1, asked by jane") {
				names = append(names, e.InvolvedObject.Name)
			}
			return true, e, nil
		})
		_, err := plan.Send(t.Context(), client, nodes.exec)
		if (err != nil) != c.refuses || (nodes.sent == 0) != c.refuses || !slices.Equal(names, c.want) {
			t.Errorf("%+v: %d sent, Events on %q, %v", c, nodes.sent, names, err)
		}
	}
}
