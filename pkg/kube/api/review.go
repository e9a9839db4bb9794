package api

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// May asks the API server whether the holder of a token may do something with a resource.
func (c *Client) May(ctx context.Context, token string, what authorizationv1.ResourceAttributes) (bool, error) {
	return c.review(ctx, token, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &what})
}

// Allowed asks whether the holder of a token may get a path that is no resource.
func (c *Client) Allowed(ctx context.Context, token, path string) (bool, error) {
	return c.review(ctx, token, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}})
}

// review is one that asks the API server whose a token is, and what its holder may do.
type review func(ctx context.Context, token string, what authorizationv1.SubjectAccessReviewSpec) (bool, error)

func reviews(authentication, authorization group) review {
	return func(ctx context.Context, token string, what authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		who := &authenticationv1.TokenReview{}
		asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := authentication.Post().Resource("tokenreviews").Body(asked).Do(ctx).Into(who); err != nil {
			return false, fmt.Errorf("asking whose token this is: %w", err)
		}
		if !who.Status.Authenticated {
			return false, nil
		}
		user := who.Status.User
		what.User, what.UID, what.Groups, what.Extra = user.Username, user.UID, user.Groups, map[string]authorizationv1.ExtraValue{}
		may, access := &authorizationv1.SubjectAccessReview{}, &authorizationv1.SubjectAccessReview{Spec: what}
		for key, values := range user.Extra {
			access.Spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
		if err := authorization.Post().Resource("subjectaccessreviews").Body(access).Do(ctx).Into(may); err != nil {
			return false, fmt.Errorf("asking what %s may do: %w", user.Username, err)
		}
		return may.Status.Allowed, nil
	}
}
