package api

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// May asks the API server whether the holder of a token may do something with a resource.
func (c *Client) May(ctx context.Context, token string, what authorizationv1.ResourceAttributes) (bool, error) {
	return c.review(ctx, credential{token: token}, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &what})
}

// MayFor is May for a token that was made for an audience, and is good for nothing else.
func (c *Client) MayFor(ctx context.Context, audience, token string, what authorizationv1.ResourceAttributes) (bool, error) {
	return c.review(ctx, credential{token, []string{audience}}, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &what})
}

// Allowed asks whether the holder of a token may get a path that is no resource.
func (c *Client) Allowed(ctx context.Context, token, path string) (bool, error) {
	return c.review(ctx, credential{token: token}, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}})
}

// credential is a token and its audiences; none: the API server.
type credential struct {
	token     string
	audiences []string
}

// review is one that asks the API server whose a token is, and what its holder may do.
type review func(ctx context.Context, from credential, what authorizationv1.SubjectAccessReviewSpec) (bool, error)

func reviews(authentication, authorization group) review {
	return func(ctx context.Context, from credential, what authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		who := &authenticationv1.TokenReview{}
		asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: from.token, Audiences: from.audiences}}
		if err := authentication.Post().Resource("tokenreviews").Body(asked).Do(ctx).Into(who); err != nil {
			return false, fmt.Errorf("asking whose token this is: %w", err)
		}
		isMeant := func(audience string) bool { return slices.Contains(from.audiences, audience) }
		if !who.Status.Authenticated || len(from.audiences) > 0 && !slices.ContainsFunc(who.Status.Audiences, isMeant) {
			return false, nil // an API server that knows no audiences names none
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
