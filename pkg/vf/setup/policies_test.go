package setup

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

func spec(vfs int) v1alpha1.OffloadPolicySpec { return v1alpha1.OffloadPolicySpec{NumVFs: vfs} }

// The kind is absent, comes, and then has a policy.
func TestPolicies_AreReadWhenKindAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{v1alpha1.OffloadPolicies(): "OffloadPolicyList"})
		var absent atomic.Bool
		absent.Store(true)
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return absent.Load(), nil, apierrors.NewNotFound(schema.GroupResource{}, "")
		})
		var log bytes.Buffer
		var changes atomic.Int32
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		p, err := NewPolicies(client, slog.New(slog.NewTextHandler(&log, nil)), func() { changes.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = p.Run(ctx, func() { changes.Add(1) }); close(done) }()
		after(5 * time.Minute)
		if _, known := p.List(); known || changes.Load() != 0 || strings.Count(log.String(), "does not have the kind") != 1 {
			t.Errorf("absent: known %t, %d changes, %s", known, changes.Load(), log.String())
		}
		absent.Store(false)
		after(5 * time.Minute)
		if list, known := p.List(); !known || len(list) != 0 || changes.Load() != 1 {
			t.Errorf("none: %v, known %t, %d changes", list, known, changes.Load())
		}
		wanted := policy("p", 1, spec(4))
		wanted.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "OffloadPolicy"}
		u, err := v1alpha1.Encode(wanted)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(v1alpha1.OffloadPolicies()).Create(ctx, u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if list, known := p.List(); !known || len(list) != 1 || list[0].Spec.NumVFs != 4 || changes.Load() != 2 {
			t.Errorf("one: %v, known %t, %d changes", list, known, changes.Load())
		}
		stop()
		<-done
	})
}
