package api

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tokens asks for tokens of service accounts. The API server may grant less than the validity asked for.
func tokens(core group) func(ctx context.Context, account types.NamespacedName, validity time.Duration) (string, error) {
	return func(ctx context.Context, account types.NamespacedName, validity time.Duration) (string, error) {
		seconds, granted := int64(validity.Seconds()), &authenticationv1.TokenRequest{}
		asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
		request := core.Post().Namespace(account.Namespace).Resource("serviceaccounts").Name(account.Name).SubResource("token")
		if err := request.Body(asked).Do(ctx).Into(granted); err != nil {
			return "", fmt.Errorf("asking for a token of %s: %w", account, err)
		}
		return granted.Status.Token, nil
	}
}
