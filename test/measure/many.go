package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyServices creates thousands of services with ten endpoints each and waits
// until all are in the databases; then it measures the latency of one more.
func (b *bench) manyServices(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	title := fmt.Sprintf("%d services with %d endpoints", b.services, manyEndpoints)
	create := func(ctx context.Context, i int) error {
		name := fmt.Sprintf("many-%d", i)
		if err := b.createService(ctx, w.namespace, name, fmt.Sprintf("10.96.%d.%d", 100+i/250, 1+i%250), nil); err != nil {
			return err
		}
		_, err := b.client.DiscoveryV1().EndpointSlices(w.namespace).Create(ctx, sliceOf(w.namespace, name, i), metav1.CreateOptions{})
		return err
	}
	built := func() (int, error) {
		out, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--bare", "--columns=name,vips", "list", "Load_Balancer")
		ready := 0
		for _, row := range strings.Split(out, "\n\n") {
			if strings.HasPrefix(row, "Service_"+w.namespace+"/many-") && strings.Count(row, ":8080") == manyEndpoints {
				ready++
			}
		}
		return ready, err
	}
	if err := b.many(ctx, title, b.services, create, built); err != nil {
		return err
	}
	fmt.Println()
	return b.serviceLatency(ctx, w)
}

// manyPolicies creates thousands of policies with twenty peers each and waits until
// all are in the databases; then it measures the latency of one more.
func (b *bench) manyPolicies(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	title := fmt.Sprintf("%d policies with %d peers", b.policies, manyPeers)
	create := func(ctx context.Context, i int) error {
		return b.createPolicy(ctx, w.namespace, fmt.Sprintf("many-%d", i), fmt.Sprintf("app-%d", i), rulesOf(i))
	}
	built := func() (int, error) {
		out, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--bare", "--columns=name", "list", "ACL")
		ready := 0
		for _, name := range strings.Fields(out) {
			if strings.HasPrefix(name, "NP:"+w.namespace+":many-") && strings.HasSuffix(name, ":Ingress") {
				ready++
			}
		}
		return ready, err
	}
	if err := b.many(ctx, title, b.policies, create, built); err != nil {
		return err
	}
	fmt.Println()
	return b.policyLatency(ctx, w)
}

// many creates n objects and prints how long it takes until all are built in the
// databases and in the nodes' flows, and what that costs.
func (b *bench) many(ctx context.Context, title string, n int, create func(context.Context, int) error, built func() (int, error)) error {
	before, err := b.costs()
	if err != nil {
		return err
	}
	transactions, err := b.transactions(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return create(creating, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	t := newTable(title+": seconds until", "s")
	t.add("all created", time.Since(start).Seconds())
	err = b.eventually(ctx, func() (bool, error) {
		pause(ctx, time.Second)
		ready, err := built()
		return ready == n, err
	})
	if err != nil {
		return err
	}
	t.add("**all in NB**", time.Since(start).Seconds())
	for _, wait := range []string{"sb", "hv"} {
		if _, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--wait="+wait, "--timeout=300", "sync"); err != nil {
			return err
		}
		t.add("all in "+map[string]string{"sb": "SB, by northd", "hv": "the nodes' flows"}[wait], time.Since(start).Seconds())
	}
	t.print()
	after, err := b.transactions(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d transactions in NB.\n", after-transactions)
	return b.printCosts(before)
}

// transactions is how many the controller has sent to the Northbound database.
func (b *bench) transactions(ctx context.Context) (n int, err error) {
	text, err := b.lab.Exec(ctx, b.nodes[0], "curl", "-sS", "http://127.0.0.1:9411/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		series, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, "ovn_offload_ovsdb_transaction_duration_seconds_count{") && strings.Contains(series, `"OVN_Northbound"`) {
			_, err := fmt.Sscan(count, &n)
			return n, err
		}
	}
	return 0, errors.New("the controller's metrics have no transactions")
}
