package api

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// reviews asks the API server whether the holder of a token may get a path.
func reviews(authentication, authorization group) func(ctx context.Context, token, path string) (bool, error) {
	return func(ctx context.Context, token, path string) (bool, error) {
		who := &authenticationv1.TokenReview{}
		asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := authentication.Post().Resource("tokenreviews").Body(asked).Do(ctx).Into(who); err != nil {
			return false, fmt.Errorf("asking whose token this is: %w", err)
		}
		if !who.Status.Authenticated {
			return false, nil
		}
		user := who.Status.User
		may, access := &authorizationv1.SubjectAccessReview{}, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		for key, values := range user.Extra {
			access.Spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
		if err := authorization.Post().Resource("subjectaccessreviews").Body(access).Do(ctx).Into(may); err != nil {
			return false, fmt.Errorf("asking what %s may do: %w", user.Username, err)
		}
		return may.Status.Allowed, nil
	}
}
