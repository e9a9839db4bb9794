package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/capture"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/permit"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// captureOptions are the flags of capture.
type captureOptions struct {
	readOptions
	request  capture.Request
	at, file string
	size     int64
}

// The bounds of a capture: it ends, and does not fill a disk.
const (
	captureCount = 100_000
	captureTime  = 10 * time.Minute
	captureSize  = 1 << 30
)

func captureCommand() *cobra.Command {
	var o captureOptions
	cmd := &cobra.Command{
		Use: "capture pod/NAME", Args: cobra.ExactArgs(1), Short: "writes packets of a pod to a file, and says which it cannot see",
		Long: "Capture reads at the pod's own interface and at its interface on the node, and writes one pcapng file.\nIt needs the right to create captures.ovn-offload.io in the pod's namespace, and leaves an Event on the pod.",
		Example: "  kubectl offload capture pod/web-0 -n shop\n  kubectl offload capture pod/web-0 -n shop -f 'tcp port 80' --time 10s -w web.pcapng\n" +
			"  kubectl offload capture pod/web-0 -n shop -w - | wireshark -k -i -",
		RunE: func(cmd *cobra.Command, args []string) error { return o.capture(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.at, "at", "all", "pod, representor or all")
	f.StringVarP(&o.request.Filter, "filter", "f", "", "filter of tcpdump; empty: all packets")
	f.IntVarP(&o.request.Count, "count", "c", 1000, "packets of each point")
	f.DurationVar(&o.request.Time, "time", 30*time.Second, "duration")
	f.IntVar(&o.request.Snap, "snaplen", 96, "bytes of each packet")
	f.Int64Var(&o.size, "max-size", 100<<20, "bytes of the file")
	f.StringVarP(&o.file, "write", "w", "", "file to write; -: standard output; empty: NAMESPACE-POD-TIME.pcapng in this directory")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the pod; empty: that of the context")
	return o.answerFlags(cmd)
}

func (o *captureOptions) check() ([]capture.Point, error) {
	r := o.request
	switch {
	case r.Count < 1 || r.Count > captureCount:
		return nil, fmt.Errorf("--count=%d: want 1 to %d", r.Count, captureCount)
	case r.Time < time.Second || r.Time > captureTime:
		return nil, fmt.Errorf("--time=%v: want 1s to %v", r.Time, captureTime)
	case r.Snap < 1 || r.Snap > 65535:
		return nil, fmt.Errorf("--snaplen=%d: want 1 to 65535", r.Snap)
	case o.size < 1 || o.size > captureSize:
		return nil, fmt.Errorf("--max-size=%d: want 1 to %d", o.size, captureSize)
	case o.file != "-" && flags.IsNew(o.file) != nil:
		return nil, flags.IsNew(o.file)
	}
	return capture.Points(o.at)
}

func (o *captureOptions) capture(cmd *cobra.Command, object string) error {
	points, err := o.check()
	if err != nil {
		return usage{err}
	}
	ctx := cmd.Context()
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	of, err := o.find(ctx, client, object)
	if err != nil {
		return err
	}
	cluster, err := o.cluster()
	if err != nil {
		return err
	}
	agent, err := cluster.Find(of.pods, byexec.App, byexec.Container, of.pod.Spec.NodeName)
	if err != nil {
		return err
	}
	result := of.explained.Captured(o.file)
	for _, at := range points {
		unseen := capture.Unseen(at, len(of.explained.VFs) > 0, of.explained.Traffic)
		result.Points = append(result.Points, &answer.CapturedPoint{Point: string(at), Unseen: unseen})
		if unseen != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s does not show %s\n", at, unseen)
		}
	}
	text := fmt.Sprintf("kubectl offload capture reads packets at %s for %v, filter %q", o.at, o.request.Time, o.request.Filter)
	if err := permit.Leave(ctx, client, &of.pod, "Captured", text); err != nil {
		return err
	}
	return o.write(cmd, result, func(ctx context.Context, at string, out, errs io.Writer) error {
		return cluster.Exec(ctx, agent, o.request.Command(capture.Point(at)), out, errs)
	})
}

// captured is the pod of a capture, and all pods.
type captured struct {
	pod       corev1.Pod
	pods      []corev1.Pod
	explained *answer.PodExplained
}

// find reads the pod, if the caller may capture there, and where its packets are.
func (o *captureOptions) find(ctx context.Context, client kubernetes.Interface, object string) (of captured, err error) {
	name, isPod := strings.CutPrefix(answer.Canonical(object), "pod/")
	if !isPod || name == "" {
		return of, usage{fmt.Errorf("%q: want pod/NAME", object)}
	}
	if err := o.ensureNamespace(); err != nil {
		return of, err
	}
	if err := permit.May(ctx, client, o.namespace, permit.Captures); err != nil {
		return of, err
	}
	s, err := o.snapshot(ctx, answer.ExplainPodResources()...)
	if err != nil {
		return of, err
	}
	if of.explained, err = answer.ExplainPod(s, o.namespace+"/"+name); err != nil {
		return of, err
	}
	if of.pods, err = snapshot.Objects[corev1.Pod](s, snapshot.Pods); err != nil {
		return of, err
	}
	of.pod = of.pods[slices.IndexFunc(of.pods, func(p corev1.Pod) bool { return p.Namespace == o.namespace && p.Name == name })]
	o.request.Port = contract.Network{}.PodPort(o.namespace, name)
	if len(of.pod.Status.PodIPs) == 0 || of.pod.Spec.HostNetwork || of.pod.Status.Phase != corev1.PodRunning {
		return of, fmt.Errorf("pod %s/%s has no interface of its own: want a running pod without hostNetwork", o.namespace, name)
	}
	o.request.Address, err = netip.ParseAddr(of.pod.Status.PodIPs[0].IP)
	return of, err
}

// write runs the points at the same time.
func (o *captureOptions) write(cmd *cobra.Command, result *answer.Captured, run capture.Command) (err error) {
	out, said := cmd.OutOrStdout(), cmd.OutOrStdout()
	if o.file == "-" {
		said = cmd.ErrOrStderr()
	} else {
		file, err := os.OpenFile(result.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return usage{err}
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	w, err := capture.NewWriter(out, o.size, "pod "+result.Pod+" on "+result.Node)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(cmd.Context())
	for _, point := range result.Points {
		group.Go(func() (err error) {
			comment := ""
			if point.Unseen != "" {
				comment = "does not show " + point.Unseen
			}
			point.Packets, point.Full, err = w.Run(ctx, point.Point, comment, run)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return o.say(said, result)
}
