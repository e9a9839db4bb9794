package apitest

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// RefuseReplaced makes a fake refuse, as the API server does, a patch with the UID of an object that has been replaced. The fake
// itself gives that UID to the new object.
func RefuseReplaced(client *fake.Clientset) {
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction) //nolint:forcetypeassert // the verb says so
		var wanted struct {
			Metadata struct {
				UID *types.UID `json:"uid"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(patch.GetPatch(), &wanted); err != nil {
			return true, nil, fmt.Errorf("reading a patch: %w", err)
		}
		there, err := client.Tracker().Get(patch.GetResource(), patch.GetNamespace(), patch.GetName())
		if err != nil || wanted.Metadata.UID == nil {
			return false, nil, nil //nolint:nilerr // the fake answers for an object that is not there
		}
		object, err := meta.Accessor(there)
		if err != nil || object.GetUID() == *wanted.Metadata.UID {
			return false, nil, err
		}
		kind := schema.GroupKind{Group: patch.GetResource().Group, Kind: patch.GetResource().Resource}
		immutable := field.Invalid(field.NewPath("metadata", "uid"), *wanted.Metadata.UID, "field is immutable")
		return true, nil, apierrors.NewInvalid(kind, patch.GetName(), field.ErrorList{immutable})
	})
}
