package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
)

const (
	checkSpace  = corev1.NamespaceDefault
	checkPrefix = "lab-check-"
	checkLabel  = "lab-check"
	checkWithin = time.Minute
	pingWithin  = 5 * time.Second
)

// Check runs a pod on every node and shows that each reaches each other one. It
// is what a person wants to see of a new lab; test/e2e goes further.
func (l *Lab) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience(checkWithin))
	defer cancel()
	names := l.cfg.NodeNames()
	if err := l.checkPods(ctx, names); err != nil {
		return err
	}
	if err := l.kubectl(ctx, "wait", "-n", checkSpace, "--for=condition=Ready", "pods", "-l", checkLabel, "--timeout="+l.patience(checkWithin*5/6).String()); err != nil {
		return err
	}
	client, err := l.Client()
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(checkSpace).List(ctx, metav1.ListOptions{LabelSelector: checkLabel})
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, from := range pods.Items {
		group.Go(func() error { return l.checkFrom(groupCtx, from.Spec.NodeName, pods.Items) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return l.kubectl(ctx, "delete", "pods", "-n", checkSpace, "-l", checkLabel)
}

func (l *Lab) checkPods(ctx context.Context, names []string) error {
	grace := int64(0)
	var input strings.Builder
	for _, name := range names {
		data, err := json.Marshal(&corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: checkSpace, Name: checkPrefix + name, Labels: map[string]string{checkLabel: ""}},
			Spec: corev1.PodSpec{
				NodeName: name, TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{
					Name: "tools", Image: build.ToolsImage, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "infinity"},
				}},
			},
		})
		if err != nil {
			return err
		}
		input.Write(append(data, '\n'))
	}
	return l.kubectlInput(ctx, strings.NewReader(input.String()), "apply", "--server-side", "-f", "-")
}

// checkFrom is one command for all addresses. It sends packets to each until one
// comes back: the userspace datapath loses the first to a new tunnel peer while it
// resolves its address.
func (l *Lab) checkFrom(ctx context.Context, from string, pods []corev1.Pod) error {
	const pings = `within=$1; shift; for address; do ping -c1 -i0.2 -w $within $address || exit 1; done`
	var targets, addresses []string
	for _, pod := range pods {
		for _, ip := range pod.Status.PodIPs {
			if to := pod.Spec.NodeName; to != from {
				targets, addresses = append(targets, to), append(addresses, ip.IP)
			}
		}
	}
	within := strconv.Itoa(int(l.patience(pingWithin).Seconds()))
	out, err := l.kubectlOutput(ctx, append([]string{"exec", "-n", checkSpace, checkPrefix + from, "--", "sh", "-c", pings, "pings", within}, addresses...)...)
	answers := strings.Split(out, "PING ")[1:]
	if err != nil {
		return fmt.Errorf("the pod on %s does not reach one of those on %s: %w", from, strings.Join(targets, ", "), err)
	}
	for i, answer := range answers[:min(len(answers), len(targets))] {
		l.say("    %-18s -> %-18s %-24s %s", from, targets[i], addresses[i], pingResult(answer))
	}
	return nil
}

// pingResult is the last answer's "ttl=63 time=0.6 ms".
func pingResult(out string) string {
	answers := regexp.MustCompile(`ttl=\d+ time=\S+ ms`).FindAllString(out, -1)
	if len(answers) == 0 {
		return "no answer"
	}
	return answers[len(answers)-1]
}
