// Package permit asks for the rights of commands that touch the packets of a pod, and leaves the Event that says so.
//
// Place in the data flow:
//
//	kubectl offload capture, trace --inject -> May -> Leave -> what they do
//
// It is a package of its own because both commands have to do it in the same way. The rights are about virtual resources
// of the group ovn-offload.io, which only roles know.
package permit

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The virtual resources that a user must be allowed to create in the namespace of a pod.
const (
	Captures   = "captures"   // reads packets of a pod
	Injections = "injections" // sends packets in the name of a pod
)

// May asks for the right to create a resource, before anything else is done. The real right is pods/exec in the agents' pods: a user
// who has that, and not this one, could do the same without this program.
func May(ctx context.Context, client kubernetes.Interface, namespace, resource string) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: "ovn-offload.io", Resource: resource},
	}}
	got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for the right to create %s: %w", resource, err)
	}
	if !got.Status.Allowed {
		return fmt.Errorf("you may not create %s.ovn-offload.io in namespace %s", resource, namespace)
	}
	return nil
}

// Connect makes a client, and asks with it for the right to create a resource.
func Connect(ctx context.Context, rc *rest.Config, namespace, resource string) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	return client, May(ctx, client, namespace, resource)
}

// Who is the user's name, as the API server knows it.
func Who(ctx context.Context, client kubernetes.Interface) (string, error) {
	got, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for the name of the user: %w", err)
	}
	return got.Status.UserInfo.Username, nil
}

// Leave leaves an Event on a pod.
func Leave(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, reason, text string) error {
	now := metav1.Now()
	_, err := client.CoreV1().Events(pod.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: pod.Name + ".", Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:           corev1.EventTypeNormal, Reason: reason, Message: text, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubectl-offload"},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("leaving an Event on pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
