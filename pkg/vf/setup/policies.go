package setup

import (
	"log/slog"

	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Policies follows the OffloadPolicies of the API. Before they are synced,
// an API server that lacks the kind included, nothing is changed: their absence
// would mean that everything goes back.
type Policies = api.Followed[v1alpha1.OffloadPolicy]

// NewPolicies calls changed for each change, also before they are synced.
func NewPolicies(client dynamic.Interface, log *slog.Logger, changed func()) (*Policies, error) {
	return api.NewFollowed[v1alpha1.OffloadPolicy](client, v1alpha1.OffloadPolicies(), log, changed)
}
