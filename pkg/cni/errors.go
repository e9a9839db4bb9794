package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// Error codes of our own; the specification leaves 100 and up to plugins. The
// first four are the stages of ADD.
const (
	// CodePod: the pod did not appear in the API, or only with another UID.
	CodePod uint = 100
	// CodeAnnotation: the pod has no usable pod-networks annotation.
	CodeAnnotation uint = 101
	// CodeAttach: the veth or the OVS port could not be made.
	CodeAttach uint = 102
	// CodeFlows: ovn-controller did not report the port's flows as installed.
	CodeFlows uint = 103
	// CodeChanged: the annotation changed or the pod was replaced during ADD.
	CodeChanged uint = 104
	// CodeCancelled: a DEL of the sandbox, or an ADD of the pod's next sandbox, ended this ADD.
	CodeCancelled uint = 105
	// CodeCheck: CHECK found a difference.
	CodeCheck uint = 106
	// CodeTaken: a link of that name exists already and is not ours.
	CodeTaken uint = 107
	// CodeDevice: the device that the pod asks for cannot be given to it.
	CodeDevice uint = 108
	// CodeNetwork: a further network that the pod asks for is not there, or not on this node.
	CodeNetwork uint = 109
)

// errCancelled is the cause of the context of an ADD that another command ends.
var errCancelled = errors.New("ended by a later command for the same pod")

func fail(code uint, format string, args ...any) *types.Error {
	return types.NewError(code, fmt.Sprintf(format, args...), "")
}

// asCNI gives any error a CNI code.
func asCNI(err error) *types.Error {
	var cniErr *types.Error
	switch {
	case errors.As(err, &cniErr):
		return cniErr
	case errors.Is(err, errCancelled):
		return types.NewError(CodeCancelled, err.Error(), "")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return types.NewError(types.ErrTryAgainLater, err.Error(), "")
	}
	return types.NewError(types.ErrInternal, err.Error(), "")
}
